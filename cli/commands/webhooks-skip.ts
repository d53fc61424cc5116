/** `flotilla webhooks skip` and `forget`: an operator gives up the head of a target, or the target as a whole. */

import type { Command as Program } from 'commander'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { discardParkedDeliveries, listParkedDeliveries } from '#operations/webhooks/dead-letters.ts'
import type { Platform } from '#runtime/platform.ts'
import { forgetTarget, readAssignments } from '#services/webhooks/targets/assignment.ts'
import { courierGroup, readWaiting, type WaitingPartition } from '#services/webhooks/targets/target-status.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { namedTargets } from './webhooks-names.ts'

/** A courier looks within two seconds; a call that runs has five. */
const parkedWithinMs = 15_000
/** Of a whole backlog: each record becomes a dead letter first. */
const emptiedWithinMs = 600_000
const pollMs = 200

interface SkipResult {
  target: string
  /** Of the head. */
  sequence: number
  /** `delivered`: the last attempt was under way and succeeded. `waiting`: marked, but no courier has parked it yet. */
  outcome: 'parked' | 'delivered' | 'waiting'
}

export const webhooksSkipCommand = defineCommand<{ target: string }, SkipResult>({
  name: 'webhooks skip',
  needs: [],
  async run({ platform, signal }, { target }) {
    const waiting = (await waitingOf(platform, target)).place
    if (waiting.lag === 0) throw new AppError('conflict', `Nothing waits for ${target}.`)
    const { partition, position } = waiting
    await skipThrough(platform, target, position)
    const passed = await untilPassed(platform, target, position + 1, parkedWithinMs, signal)
    const key = `${courierGroup}/${partition}/${position}`
    const letter = (await listParkedDeliveries(lettersOf(platform), { target })).find(
      (one) => one.key === key,
    )
    const outcome = letter ? 'parked' : passed ? 'delivered' : 'waiting'
    return { target, sequence: letter?.sequence ?? position, outcome }
  },
})

interface ForgetResult {
  target: string
  partition: number
  /** Records that waited, or were dead letters, and are gone. */
  discarded: number
  /** Dead letters that stay; they can be replayed once the target stands in the file again. */
  dead_letters: number
}

export const webhooksForgetCommand = defineCommand<{ target: string; force: boolean }, ForgetResult>({
  name: 'webhooks forget',
  needs: [],
  async run({ platform, signal }, { target, force }) {
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
    const letters = await listParkedDeliveries(lettersOf(platform), { target })
    if (force) await discardParkedDeliveries(platform, letters)
    const { eventLog, relational } = platform.engines
    const parts = { eventLog, relational, places: platform.places }
    const partition = await forgetTarget(parts, target, courierGroup)
    return {
      target,
      partition,
      discarded: force ? letters.length : 0,
      dead_letters: force ? 0 : letters.length,
    }
  },
})

export function registerWebhooksSkip(webhooks: Program, cli: Cli): void {
  const skip = webhooks
    .command('skip')
    .argument('<target>', 'its name')
    .description('parks the head of a target, the oldest record that waits, so that the next one goes on')
  describe(skip, 'flotilla webhooks skip audit-log').action(
    async (target: string, { json }: { json?: boolean }) => {
      const { outcome } = await cli.run(webhooksSkipCommand, { target }, { json, render: renderSkip })
      if (outcome === 'waiting') cli.setExitCode(exitRefused)
    },
  )
  const forget = webhooks
    .command('forget')
    .argument('<target>', 'its name; take it out of the targets file first')
    .description('gives back the partition of a target that is gone')
    .option('--force', 'discards what waits for it and its dead letters')
  describe(forget, 'flotilla webhooks forget old-target').action(
    async (target: string, { json, force = false }: { json?: boolean; force?: boolean }) => {
      await cli.run(webhooksForgetCommand, { target, force }, { json, render: renderForget })
    },
  )
}

function lettersOf(platform: Platform) {
  return { eventLog: platform.engines.eventLog, codec: platform.codec, publisher: platform.publisher }
}

/** The row's mark never goes back. */
async function skipThrough(platform: Platform, target: string, offset: number): Promise<void> {
  await platform.engines.relational.query(
    `update platform.webhook_targets set skip_through = greatest(coalesce(skip_through, -1), $2::bigint)
     where name = $1`,
    [target, offset],
  )
}

/** Throws AppError `not_found` for a target without a partition. */
async function waitingOf(
  platform: Platform,
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
  const { waiting, couriers } = await readWaiting({ eventLog, places: platform.places }, new Set([partition]))
  return { place: waiting.get(partition) ?? { partition, position: 0, end: 0, lag: 0 }, couriers }
}

/** True once everything below this offset is settled; false at once where no courier runs. */
async function untilPassed(
  platform: Platform,
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

function refuseNamed(platform: Platform, target: string): void {
  const { path, names } = namedTargets(platform.env)
  if (names?.has(target)) {
    throw new AppError('conflict', `${target} stands in ${path}: take it out first.`)
  }
  if (names !== null) return
  throw new AppError(
    'conflict',
    `${path} cannot be read here, so nobody can tell whether ${target} still stands in it: name the targets file of the relay with WEBHOOK_TARGETS_FILE.`,
  )
}

function renderSkip({ target, sequence, outcome }: SkipResult): string {
  if (outcome === 'parked')
    return `${target}: ${sequence} is among the dead letters, and the next one goes on`
  if (outcome === 'delivered') return `${target}: ${sequence} was delivered before it could be parked`
  return `${target}: ${sequence} is marked; it is parked as soon as a courier runs`
}

function renderForget({ target, partition, discarded, dead_letters: kept }: ForgetResult): string {
  const gone = discarded > 0 ? `; ${discarded} records are discarded` : ''
  const left = kept > 0 ? `; ${kept} dead letters stay` : ''
  return `${target} is forgotten, and partition ${partition} is free${gone}${left}`
}
