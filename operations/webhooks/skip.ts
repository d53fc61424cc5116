/** An operator gives up the head of a target, which is its oldest waiting record, or the target itself. */

import { type Static, Type } from 'typebox'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { removeDeadLetters } from '#runtime/consume/dead-letters.ts'
import { forgetTarget, readAssignments } from '#services/webhooks/targets/assignment.ts'
import { courierGroup, readWaiting, type WaitingPartition } from '#services/webhooks/targets/target-status.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { deadLettersOf } from '#topics/dead-letters.ts'
import { defineAction } from '../action.ts'
import { deadLetterParts } from '../dead-letters/letters.ts'
import type { OperatedPlatform } from '../operation.ts'
import { listDeliveryLetters } from './delivery-letters.ts'
import { namedTargets, targetInPath, targetProblems } from './target-settings.ts'

/** A courier sees the mark within two seconds; a call in flight has five. */
const parkedWithinMs = 15_000
/** For a whole backlog: each record becomes a dead letter first. */
const emptiedWithinMs = 600_000
const pollMs = 200

const skipped = Type.Object(
  {
    target: Type.String(),
    /** Of the head. */
    sequence: Type.Integer(),
    outcome: Type.Enum(['parked', 'delivered', 'waiting'], {
      type: 'string',
      description:
        'delivered: its last attempt was under way and succeeded. waiting: it is marked, and no courier has parked it yet.',
    }),
  },
  { title: 'SkippedHead' },
)

export const skipHeadAction = defineAction({
  name: 'webhooks skip',
  summary: 'Give up the head of a target: it becomes a dead letter, and the next one is tried',
  args: Type.Object({ name: Type.String() }),
  change: { action: 'webhook.skip', target: ({ name }) => name },
  async run({ platform, signal, describe }, { name: target }): Promise<Static<typeof skipped>> {
    const waiting = (await waitingOf(platform, target)).place
    if (waiting.lag === 0) throw new AppError('conflict', `Nothing waits for ${target}.`)
    const { partition, position } = waiting
    describe({ after: { partition, offset: position } })
    await skipThrough(platform, target, position)
    const passed = await untilPassed(platform, target, position + 1, parkedWithinMs, signal)
    const { epoch } = platform.publisher.locationOf(webhooksDeliveries)
    const key = deadLettersOf(webhooksDeliveries).key({
      group: courierGroup,
      partition,
      offset: position,
      epoch,
    })
    const letter = (await listDeliveryLetters(deadLetterParts(platform), { target })).find(
      (one) => one.key === key,
    )
    const outcome = letter ? 'parked' : passed ? 'delivered' : 'waiting'
    return { target, sequence: letter?.sequence ?? position, outcome }
  },
  http: {
    role: 'admin',
    problems: [...targetProblems, 'not_found', 'conflict'],
    method: 'POST',
    path: '/webhooks/targets/:name/skip',
    operationId: 'skipHead',
    tag: 'webhooks',
    fields: { name: targetInPath },
    answer: skipped,
  },
  cli: [
    {
      positional: ['name'],
      example: 'flotilla webhooks skip audit-log',
      render({ target, sequence, outcome }) {
        if (outcome === 'parked')
          return `${target}: ${sequence} is now a dead letter, and delivery continues with the next one`
        if (outcome === 'delivered') return `${target}: ${sequence} was delivered before it could be parked`
        return `${target}: ${sequence} is marked; it is parked as soon as a courier runs`
      },
      exit: ({ outcome }) => (outcome === 'waiting' ? 1 : 0),
    },
  ],
})

export const forgetTargetAction = defineAction({
  name: 'webhooks forget',
  summary: 'Free the partition of a target that is no longer in the targets file',
  args: Type.Object({ name: Type.String(), force: Type.Optional(Type.Boolean()) }),
  change: { action: 'webhook.forget', target: ({ name }) => name },
  async run({ platform, signal, describe }, { name: target, force = false }) {
    refuseNamed(platform, target)
    const waiting = (await waitingOf(platform, target)).place
    if (waiting.lag > 0 && !force) {
      throw new AppError(
        'conflict',
        `${waiting.lag} records wait for ${target}: add it to the targets file again until they are delivered, or discard them with --force.`,
      )
    }
    if (waiting.lag > 0) {
      await skipThrough(platform, target, waiting.end - 1)
      if (!(await untilPassed(platform, target, waiting.end, emptiedWithinMs, signal))) {
        throw new AppError(
          'conflict',
          `No courier has parked what waits for ${target}: start one, and try again.`,
        )
      }
    }
    const letters = await listDeliveryLetters(deadLetterParts(platform), { target })
    if (force) {
      await removeDeadLetters(
        platform,
        webhooksDeliveries.name,
        letters.map(({ origin }) => origin),
      )
    }
    const { eventLog, relational } = platform.engines
    const parts = { eventLog, relational, locations: platform.locations }
    const partition = await forgetTarget(parts, target, courierGroup)
    describe({ before: { partition }, count: force ? letters.length : 0 })
    const discarded = force ? letters.length : 0
    // Those that stay can be replayed once the target is in the file again.
    return { target, partition, discarded, dead_letters: letters.length - discarded }
  },
  cli: [
    {
      positional: ['name'],
      options: { force: 'discard what waits for it and its dead letters' },
      example: 'flotilla webhooks forget old-target',
      render({ target, partition, discarded, dead_letters: kept }) {
        const gone = discarded > 0 ? `; discarded: ${plural(discarded, 'record')}` : ''
        const left = kept > 0 ? `; kept: ${plural(kept, 'dead letter')}` : ''
        return `${target} is forgotten, and partition ${partition} is free${gone}${left}`
      },
    },
  ],
})

/** The row's mark never goes back. */
async function skipThrough(platform: OperatedPlatform, target: string, offset: number): Promise<void> {
  await platform.engines.relational.query(
    `update platform.webhook_targets set skip_through = greatest(coalesce(skip_through, -1), $2::bigint)
     where name = $1`,
    [target, offset],
  )
}

/** Throws AppError `not_found` for a target without a partition. */
async function waitingOf(
  platform: OperatedPlatform,
  target: string,
): Promise<{ place: WaitingPartition; couriers: number }> {
  const { eventLog, relational } = platform.engines
  const partition = (await readAssignments(relational)).get(target)
  if (partition === undefined) {
    throw new AppError(
      'not_found',
      `No target ${target.slice(0, 64)} owns a partition; \`flotilla webhooks targets\` shows all.`,
    )
  }
  const { waiting, couriers } = await readWaiting(
    { eventLog, locations: platform.locations },
    new Set([partition]),
  )
  return { place: waiting.get(partition) ?? { partition, position: 0, end: 0, lag: 0 }, couriers }
}

/** True once everything below this offset is delivered or parked; false at once where no courier runs. */
async function untilPassed(
  platform: OperatedPlatform,
  target: string,
  offset: number,
  withinMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const end = performance.now() + withinMs
  while (performance.now() < end && !signal.aborted) {
    const { place, couriers } = await waitingOf(platform, target)
    if (place.position >= offset) return true
    if (couriers === 0) return false
    await sleep(pollMs, signal)
  }
  return false
}

function refuseNamed(platform: OperatedPlatform, target: string): void {
  const { path, names } = namedTargets(platform.env)
  if (names?.has(target)) {
    throw new AppError('conflict', `${target} is still in ${path}: remove it there first.`)
  }
  if (names !== null) return
  throw new AppError(
    'conflict',
    `${path} cannot be read here, so it is not known whether ${target} is still in it: name the targets file of the relay with WEBHOOK_TARGETS_FILE.`,
  )
}
