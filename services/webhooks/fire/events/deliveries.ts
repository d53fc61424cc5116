/**
 * Chooses the targets of an event, and publishes a record of webhooks.deliveries for each; also for the platform's own events,
 * the records of fleet.events, as if they had been fired.
 */

import { createHash } from 'node:crypto'
import { ulid } from 'ulid'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { done, type Outcome, park, unavailable } from '#lib/outcome.ts'
import {
  type ConsumerDependencies,
  type RunningConsumer,
  startBatchConsumer,
} from '#runtime/consume/consumer.ts'
import {
  headerNames,
  type Message,
  type OutgoingMessage,
  type Position,
  type Publisher,
} from '#runtime/publish/messages.ts'
import type { FleetEvent, WebhookDelivery } from '#schemas/types.ts'
import { fleetEvents, webhooksDeliveries } from '#topics/catalog.ts'
import { isPlatformEvent } from '../../event.ts'
import type { Assignments } from '../../targets/assignment.ts'
import { withoutSecrets } from '../../targets/secrets.ts'
import type { WatchedTargets, WebhookTarget, WebhookTargets } from '../../targets/targets-file.ts'
import { type PreparedEvent, prepareEvent, refuseSecrets } from './event-body.ts'

interface DeliveryRequest {
  event: PreparedEvent
  receivedAtMs: number
  /** Headers of the record, for example the request id. */
  headers: Record<string, string>
  /** Id of the fleet event behind it: its repeats get the same event ids, by which consumers drop them. */
  sourceEventId?: string
}

export type Deliveries = ReturnType<typeof createDeliveries>

export function createDeliveries(
  publisher: Pick<Publisher, 'publish'>,
  assignments: Pick<Assignments, 'partitionOf'>,
) {
  return {
    /**
     * Resolves with the positions in the order of the requests, once the log has all of them. Throws AppError of an engine
     * that is away, or `overloaded`; some may be stored then.
     */
    async publish(
      target: string,
      requests: readonly DeliveryRequest[],
      timeoutMs: number,
    ): Promise<Position[]> {
      const partition = await assignments.partitionOf(target)
      const messages = requests.map((request) => messageOf(target, request))
      return publisher.publish(webhooksDeliveries, messages, { partition, timeoutMs })
    },
  }
}

function messageOf(
  target: string,
  { event, receivedAtMs, headers, sourceEventId }: DeliveryRequest,
): OutgoingMessage<string, WebhookDelivery> {
  const { event: kind, agent, task_id, idempotency_key, body } = event
  return {
    key: target,
    value: {
      target,
      event: kind,
      agent,
      task_id,
      idempotency_key,
      webhook_id: ulid(receivedAtMs),
      body,
      received_at: receivedAtMs,
      sequence: null,
      replay: false,
    },
    headers: { ...headers, [headerNames.agent]: agent },
    ...(sourceEventId === undefined ? {} : { eventId: eventIdOf(sourceEventId, target) }),
  }
}

/** The same for every copy of the fleet event. */
export function eventIdOf(sourceEventId: string, target: string): string {
  return createHash('sha256').update(sourceEventId).update('\0').update(target).digest('hex').slice(0, 32)
}

const namesShownMax = 20
const nameShownMax = 64

/**
 * Those whose `events` and `agents` lists match; of these only the named ones, when names are given. Throws AppError
 * `unknown_target` that lists the names which no target has; `bad_request` for a name that is empty.
 */
export function chooseTargets(
  { targets }: Pick<WebhookTargets, 'targets'>,
  event: { event: string; agent: string },
  named: readonly string[] | null,
): WebhookTarget[] {
  if (named) refuseUnknown(targets, named)
  const wanted = named && new Set(named)
  return [...targets.values()].filter(
    ({ name, events, agents }) =>
      (wanted === null || wanted.has(name)) &&
      (events === null ? !isPlatformEvent(event.event) : events.includes(event.event)) &&
      (agents === null || agents.includes(event.agent)),
  )
}

/** The names of `?targets=a,b&targets=c`; null when the caller named none at all. */
export function namesOf(query: string | string[] | undefined): string[] | null {
  if (query === undefined) return null
  const names = (Array.isArray(query) ? query : [query]).flatMap((text) => text.split(','))
  return [...new Set(names.map((name) => name.trim()))]
}

function refuseUnknown(targets: ReadonlyMap<string, WebhookTarget>, named: readonly string[]): void {
  if (named.includes('')) {
    throw new AppError(
      'bad_request',
      'targets holds an empty name: name targets, or leave it out to reach every target that wants the event.',
    )
  }
  const unknown = named.filter((name) => !targets.has(name))
  if (unknown.length === 0) return
  const shown = unknown.slice(0, namesShownMax).map((name) => printable(name.slice(0, nameShownMax)))
  throw new AppError('unknown_target', `Nothing was sent. There is no target named ${shown.join(', ')}.`, {
    errors: shown.map((name) => ({
      path: 'targets',
      message: `${name} is not a target of the targets file`,
    })),
  })
}

function printable(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?')
}

/** Headers that belong to the event; the others belong to its record. */
const keptHeaders = [headerNames.requestId, headerNames.traceparent]

interface FleetParts {
  targets: Pick<WatchedTargets, 'current'>
  deliveries: Deliveries
}

/** Delivers the platform's own events. */
export function startFleetEvents(
  dependencies: ConsumerDependencies,
  parts: FleetParts,
): Promise<RunningConsumer> {
  const { codec, eventLog } = dependencies
  return startBatchConsumer(dependencies, {
    group: 'webhook-relay',
    topic: fleetEvents,
    batchRecordsMax: 200,
    batchBytesMax: 1024 * 1024,
    callTimeoutMs: deadlines.handler.fleetEventsMs,
    retriesMax: 5,
    backoff: { baseMs: 200, maxMs: 10_000 },
    handle: createFleetHandler(parts),
    keptOf: withoutSecrets({ codec, topic: fleetEvents, secrets: () => parts.targets.current().secrets }),
    probe: () => eventLog.ping(),
  })
}

/** All events of a batch for one target are published together, in their order. */
export function createFleetHandler({ targets, deliveries }: FleetParts) {
  return async function fireFleetEvents(messages: Message<FleetEvent>[]): Promise<Outcome[]> {
    const outcomes = new Array<Outcome>(messages.length).fill(done)
    const byTarget = new Map<string, DeliveryRequest[]>()
    const now = targets.current()
    messages.forEach((message, n) => {
      const prepared = prepare(message, now.secrets)
      if (typeof prepared === 'string') {
        outcomes[n] = park(prepared)
        return
      }
      for (const { name } of chooseTargets(now, prepared.event, null)) {
        byTarget.set(name, [...(byTarget.get(name) ?? []), prepared])
      }
    })
    try {
      await Promise.all(
        [...byTarget].map(([target, requests]) =>
          deliveries.publish(target, requests, deadlines.publish.fleetEventsMs),
        ),
      )
    } catch (error) {
      if (!isUnavailable(error)) throw error
      // Deliveries already stored are published again under the same event ids.
      return outcomes.map((outcome) =>
        outcome.kind === 'park' ? outcome : unavailable('webhook deliveries', error.message),
      )
    }
    return outcomes
  }
}

/** A string is the reason to park the event: repeating it would not help. */
function prepare(message: Message<FleetEvent>, secrets: readonly string[]): DeliveryRequest | string {
  const { value, headers } = message
  if (value === null) return 'the event has no value'
  const { event, agent, task_id, result, ts } = value
  try {
    const fields = { event, agent, task_id, ts }
    JSON.parse(result)
    const text = `${JSON.stringify(fields).slice(0, -1)},"result":${result}}`
    const prepared = prepareEvent(Buffer.from(text), { byPlatform: true })
    refuseSecrets(prepared, secrets)
    return {
      event: prepared,
      receivedAtMs: message.timestamp,
      headers: Object.fromEntries(
        keptHeaders.flatMap((name) => (headers[name] ? [[name, headers[name]]] : [])),
      ),
      sourceEventId: headers[headerNames.eventId] ?? `${message.partition}/${message.offset}`,
    }
  } catch (error) {
    if (error instanceof SyntaxError) return 'invalid_json: the result is not JSON'
    if (!(error instanceof AppError)) throw error
    const faults = (error.errors ?? []).map(({ path, message: fault }) => `${path}: ${fault}`)
    return [error.code, ...faults].join(': ')
  }
}
