/** Dead letters of webhooks.deliveries, as deliveries: what was given up, for which target, and how it is delivered again. */

import { type Static, Type } from 'typebox'
import { AppError, describeError } from '#lib/errors.ts'
import { replayHeaders } from '#runtime/consume/dead-letter-replay.ts'
import {
  collectDeadLetters,
  type DeadLetter,
  type DeadLetterParts,
  removeDeadLetters,
} from '#runtime/consume/dead-letters.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { DeadLetterOrigin } from '#topics/dead-letters.ts'
import { defineAction } from '../action.ts'
import {
  deadLetterParts,
  discardLetters,
  exitOf,
  type LetterKind,
  listLetters,
  type Replay,
  replayLetters,
  showLetters,
  shownList,
  shownResults,
} from '../dead-letters/letters.ts'
import type { OperatedPlatform } from '../operation.ts'
import { namedTargets } from './target-settings.ts'

interface DeliveryLetter {
  /** `<group>/<partition>/<offset>`, with `/<epoch>` after the topic was grown: the name of the dead letter. */
  key: string
  /** The same in its parts. */
  origin: DeadLetterOrigin
  target: string
  /** What X-Sequence said; null when the record cannot be read. */
  sequence: number | null
  event: string | null
  agent: string | null
  task_id: string | null
  idempotency_key: string | null
  attempts: number
  reason: string
  replay: boolean
  parked_at: string
  received_at: string | null
}

type DeliveryName = Pick<DeliveryLetter, 'key' | 'target' | 'sequence'>

const filterFields = {
  target: Type.Optional(Type.String()),
  sequence: Type.Optional(Type.Integer({ minimum: 0 })),
}
const filter = Type.Object(filterFields)

const deliveries: LetterKind<Static<typeof filter>, DeliveryLetter, DeliveryName, { body: unknown }> = {
  name: 'webhooks dead-letters',
  list: listDeliveryLetters,
  originOf: ({ origin }) => ({ topic: webhooksDeliveries.name, ...origin }),
  nameOf: ({ target, sequence, key }) => ({ target, sequence, key }),
  shownMax: 100,
  async show({ codec }, letter) {
    const { delivery } = await deliveryOf(codec, letter)
    // As the receiver would get it.
    return { body: delivery && bodyOf(delivery) }
  },
  openReplay: openDeliveryReplay,
}

const which = {
  target: ['name', 'only those of this target'],
  sequence: ['number', 'only the one with this X-Sequence'],
} as const

const list = defineAction({
  args: filter,
  name: 'webhooks dead-letters list',
  summary: "Each target's in its order",
  run: (context, wanted) => listLetters(deliveries, context, wanted),
  cli: [
    {
      options: which,
      example: 'flotilla webhooks dead-letters list --target audit-log',
      render: ({ dead_letters: found }) =>
        shownList(found, {
          target: ({ target }) => target,
          sequence: ({ sequence }) => sequence,
          event: ({ event }) => event,
          agent: ({ agent }) => agent,
          task: ({ task_id }) => task_id?.slice(0, 40) ?? null,
          attempts: ({ attempts }) => attempts,
          parked: ({ parked_at }) => parked_at,
          why: ({ reason }) => reason.slice(0, 80),
        }),
    },
  ],
})

const show = defineAction({
  args: filter,
  name: 'webhooks dead-letters show',
  summary: 'With their bodies, as the receiver would get them',
  run: (context, wanted) => showLetters(deliveries, context, wanted),
  cli: [
    {
      options: which,
      example: 'flotilla webhooks dead-letters show --target audit-log --sequence 120',
      render: ({ dead_letters: shown }) => ({ documents: shown }),
    },
  ],
})

const treatment = Type.Object({ ...filterFields, all: Type.Optional(Type.Boolean()) })

const treat = (verb: 'replay' | 'discard', summary: string, example: string) =>
  defineAction({
    name: `webhooks dead-letters ${verb}`,
    summary,
    args: treatment,
    change: {
      action: `dead-letters.${verb}`,
      target: ({ target, sequence }) =>
        [target ?? 'all targets', ...(sequence === undefined ? [] : [sequence])].join('/'),
    },
    run: (context, { all: _, ...wanted }) =>
      (verb === 'replay' ? replayLetters : discardLetters)(deliveries, context, wanted),
    cli: [
      {
        options: { ...which, all: 'those of every target' },
        read: readTreatment,
        example,
        render: ({ results }) =>
          shownResults(results, { target: ({ target }) => target, sequence: ({ sequence }) => sequence }),
        exit: (all) => exitOf(all),
      },
    ],
  })

export const deliveryLetters = {
  list,
  show,
  replay: treat(
    'replay',
    'Deliver them again, behind what waits, under their old sequences',
    'flotilla webhooks dead-letters replay --target audit-log',
  ),
  discard: treat(
    'discard',
    'Remove them for good',
    'flotilla webhooks dead-letters discard --target audit-log --sequence 120',
  ),
}

function readTreatment(given: Static<typeof treatment>): Static<typeof treatment> {
  const { target, sequence, all } = given
  if (all && (target ?? sequence) !== undefined) {
    throw new AppError('bad_request', '--all goes without --target and --sequence.')
  }
  if (all || target !== undefined) return given
  throw new AppError('bad_request', 'Say which ones: --target (perhaps with --sequence), or --all.')
}

/** By target, then by sequence. */
export async function listDeliveryLetters(
  parts: DeadLetterParts,
  { target, sequence }: { target?: string; sequence?: number },
): Promise<DeliveryLetter[]> {
  const found = await collectDeadLetters(parts, webhooksDeliveries.name, async (letter) => {
    if (target !== undefined && letter.recordKey !== target) return null
    const listed = listedOf(letter, (await deliveryOf(parts.codec, letter)).delivery)
    return sequence === undefined || listed.sequence === sequence ? listed : null
  })
  return found.sort(
    (a, b) =>
      (a.target < b.target ? -1 : Number(a.target > b.target)) || (a.sequence ?? 0) - (b.sequence ?? 0),
  )
}

/**
 * Each delivery keeps its sequence, key and webhook id, is marked as a replay, and goes to the partition that its target
 * owns now, behind all that waits there.
 */
export async function openDeliveryReplay(platform: OperatedPlatform): Promise<Replay> {
  const { codec, publisher } = platform
  const { path, names } = namedTargets(platform.env)
  const assignments = await readAssignments(platform.engines.relational)
  return async (letter) => {
    const { delivery, fault } = await deliveryOf(codec, letter)
    if (!delivery) throw new AppError('conflict', `It cannot be replayed: ${fault}.`)
    const { target } = delivery
    // The courier would park it again.
    if (names !== null && !names.has(target)) {
      throw new AppError('conflict', `${target} is not in ${path} any more: add it again, or discard.`)
    }
    const partition = assignments.get(target)
    if (partition === undefined) {
      throw new AppError(
        'conflict',
        `${target} owns no partition any more: add it to the targets file again, or discard the dead letter.`,
      )
    }
    const value = { ...delivery, sequence: delivery.sequence ?? letter.offset, replay: true }
    const message = { key: target, value, headers: replayHeaders(letter) }
    const [position] = await publisher.publish(webhooksDeliveries, [message], { partition })
    await removeDeadLetters(deadLetterParts(platform), letter.topic, [letter])
    return position!
  }
}

/** The delivery that a dead letter holds; null, and why, when it cannot be read. */
async function deliveryOf(
  codec: Codec,
  letter: DeadLetter,
): Promise<{ delivery: WebhookDelivery | null; fault: string | null }> {
  if (letter.value === null) return { delivery: null, fault: 'its value was too large to be kept' }
  const { partition, offset, headers, value } = letter
  const key = Buffer.from(letter.recordKey ?? '')
  try {
    const record = { partition, offset, headers, value, key, timestamp: 0 }
    const message = await codec.decode(webhooksDeliveries, record)
    return { delivery: message.value, fault: null }
  } catch (error) {
    return { delivery: null, fault: describeError(error) }
  }
}

function listedOf(letter: DeadLetter, delivery: WebhookDelivery | null): DeliveryLetter {
  return {
    key: letter.key,
    origin: {
      group: letter.group,
      partition: letter.partition,
      offset: letter.offset,
      epoch: letter.epoch,
    },
    target: delivery?.target ?? letter.recordKey ?? '',
    sequence: delivery && (delivery.sequence ?? letter.offset),
    event: delivery?.event ?? null,
    agent: delivery?.agent ?? null,
    task_id: delivery?.task_id ?? null,
    idempotency_key: delivery?.idempotency_key ?? null,
    attempts: letter.attempts,
    reason: letter.reason,
    replay: delivery?.replay ?? false,
    parked_at: letter.parkedAt.toISOString(),
    received_at: delivery && new Date(delivery.received_at).toISOString(),
  }
}

function bodyOf({ body }: WebhookDelivery): unknown {
  const text = body.toString()
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
