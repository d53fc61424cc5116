/** For receivers of webhooks: hands each event to a handler once and in order, and says which HTTP status to answer. */

import type { WebhookEvent } from './types.ts'
import {
  checkSecrets,
  headerOf,
  type RefusalReason,
  requiredHeader,
  type VerifyOptions,
  verifyWebhook,
  type WebhookHeaders,
  WebhookRefused,
} from './webhook-signature.ts'
import { createMemoryStore, type ReceiverStore } from './webhook-store.ts'

export interface ReceiverOptions extends Omit<VerifyOptions, 'secrets'> {
  /** The target's signing secrets; null for a target without `signing_secret`: then nothing is verified. */
  secrets: readonly string[] | null
  /** As in the targets file. Default `target`. */
  ordering?: 'target' | 'agent'
  /** Default: in memory. */
  store?: ReceiverStore
}

/** Events between these sequences were parked: they come later as replays, or never. */
export interface Gap {
  after: number
  /** The last one that is missing. */
  through: number
}

export interface Delivery {
  idempotencyKey: string
  /** Rises per target (lane); not gapless. */
  sequence: number
  /** The one before it in its lane; null states nothing. */
  previousSequence: number | null
  /** From 1. */
  attempt: number
  /** It was parked once and comes now, perhaps behind later ones. */
  replay: boolean
  /** Not null when events of this lane are missing right before this one. */
  gap: Gap | null
}

export type Received =
  /** `duplicate`: the key was handled before. `stale`: the lane is beyond this sequence. Neither reaches the handler. */
  | { what: 'handled' | 'duplicate' | 'stale'; status: 200; delivery: Delivery }
  /** The handler or the store threw; nothing is remembered, so the sender's next attempt tries again. */
  | { what: 'failed'; status: 500; delivery: Delivery; error: unknown }
  /** Earlier attempts of this lane are still being handled. */
  | { what: 'busy'; status: 503 }
  | { what: 'refused'; status: 400 | 401 | 503; reason: RefusalReason; message: string }

export interface Receiver {
  /** Never throws. `body` is the raw body as it came: the signature covers its bytes. */
  receive(
    headers: WebhookHeaders,
    body: Uint8Array | string,
    handle: (event: WebhookEvent, delivery: Delivery) => void | Promise<void>,
  ): Promise<Received>
}

/** Requests of one lane that may wait for the one before: the sender gave up on those and sends them again. */
const waitingMax = 8

/** One receiver for one target. Several processes that receive for it need a store that they share. Throws TypeError
 * for secrets that are none. */
export function createReceiver(options: ReceiverOptions): Receiver {
  const { secrets } = options
  // At once, not at the first request.
  if (secrets !== null) checkSecrets(secrets)
  const store = options.store ?? createMemoryStore()
  const runInLane = createLanes()
  return {
    async receive(headers, body, handle) {
      let event: WebhookEvent
      let delivery: Delivery
      try {
        if (secrets !== null) verifyWebhook(headers, body, { ...options, secrets })
        delivery = deliveryOf(headers)
        event = eventOf(body, delivery)
      } catch (error) {
        if (!(error instanceof WebhookRefused)) throw error
        return { what: 'refused', status: error.status, reason: error.reason, message: error.message }
      }
      const lane = options.ordering === 'agent' ? event.agent : ''
      const received = await runInLane(lane, async (): Promise<Received> => {
        try {
          return { what: await take(store, lane, event, delivery, handle), status: 200, delivery }
        } catch (error) {
          return { what: 'failed', status: 500, delivery, error }
        }
      })
      return received ?? { what: 'busy', status: 503 }
    },
  }
}

async function take(
  store: ReceiverStore,
  lane: string,
  event: WebhookEvent,
  delivery: Delivery,
  handle: (event: WebhookEvent, delivery: Delivery) => void | Promise<void>,
): Promise<'handled' | 'duplicate' | 'stale'> {
  const { sequence, previousSequence, replay } = delivery
  // Not the key of the headers: agent `build-2` with task `1` and agent `build` with task `2-1` share it.
  const idempotencyKey = JSON.stringify([event.agent, event.task_id, event.event])
  const last = await store.lastSequence(lane)
  if (!replay && last !== undefined && previousSequence !== null && last < previousSequence) {
    delivery.gap = { after: last, through: previousSequence }
  }
  const later = last !== undefined && sequence <= last
  if (await store.wasFinished(idempotencyKey)) {
    // Two fires of one event have a sequence each: the lane goes on, the handler has nothing to do.
    if (!later) await store.finish({ lane, sequence, idempotencyKey })
    return 'duplicate'
  }
  // Without a sequence before it, a new event with a low sequence is the first of a lane that begins again.
  if (later && !replay && previousSequence !== null) return 'stale'
  await handle(event, delivery)
  // A replay may come behind later ones: it never takes the lane back, nor says where it begins.
  const moves = !replay || (last !== undefined && !later)
  await store.finish({ lane, sequence: moves ? sequence : null, idempotencyKey })
  return 'handled'
}

function deliveryOf(headers: WebhookHeaders): Delivery {
  const previous = headerOf(headers, 'x-previous-sequence')
  const replay = headerOf(headers, 'x-webhook-replay')
  return {
    idempotencyKey: requiredHeader(headers, 'x-idempotency-key'),
    sequence: numberOf('x-sequence', requiredHeader(headers, 'x-sequence')),
    previousSequence: previous === undefined ? null : numberOf('x-previous-sequence', previous),
    attempt: numberOf('x-attempt', headerOf(headers, 'x-attempt') ?? '1'),
    replay: replay === 'true',
    gap: null,
  }
}

function numberOf(name: string, text: string): number {
  const number = Number(text)
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(number)) return number
  throw new WebhookRefused('invalid_header', `${name} is no number`)
}

/** Headers are not under the signature: the key must be the one that the signed body holds. */
function eventOf(body: Uint8Array | string, { idempotencyKey }: Delivery): WebhookEvent {
  let event: Partial<WebhookEvent> | null
  try {
    event = JSON.parse(typeof body === 'string' ? body : new TextDecoder().decode(body))
  } catch {
    throw new WebhookRefused('invalid_body', 'the body is not JSON')
  }
  const { agent, task_id, event: kind } = event ?? {}
  if (typeof agent !== 'string' || typeof task_id !== 'string' || typeof kind !== 'string') {
    throw new WebhookRefused('invalid_body', 'the body is no event')
  }
  if (idempotencyKey !== `${agent}-${task_id}-${kind}`) {
    throw new WebhookRefused('invalid_header', 'x-idempotency-key is not that of the body')
  }
  return event as WebhookEvent
}

/** Runs the work of one lane one after the other; null when too much waits there already. */
function createLanes() {
  const lanes = new Map<string, { tail: Promise<unknown>; waiting: number }>()
  return async <T>(name: string, work: () => Promise<T>): Promise<T | null> => {
    const lane = lanes.get(name) ?? { tail: Promise.resolve(), waiting: 0 }
    if (lane.waiting >= waitingMax) return null
    lanes.set(name, lane)
    lane.waiting += 1
    const mine = lane.tail.then(work)
    lane.tail = mine
    try {
      return await mine
    } finally {
      lane.waiting -= 1
      if (lane.waiting === 0) lanes.delete(name)
    }
  }
}
