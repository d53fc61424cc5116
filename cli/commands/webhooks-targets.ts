/** `flotilla webhooks targets`: the state of every target. */

import type { Command as Program } from 'commander'
import { readTargetStatuses, type TargetStatus } from '#services/webhooks/targets/target-status.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { table } from '../output.ts'
import { namedTargets } from './webhooks-names.ts'

type TargetState = 'idle' | 'delivering' | 'retrying' | 'outage' | 'removed' | 'new'

interface ListedTarget {
  target: string
  state: TargetState
  partition: number | null
  lag: number
  head_sequence: number | null
  head_age_s: number | null
  breaker: string
  next_attempt_at: string | null
  last_status: number | null
  last_fault: string | null
  last_sequence: number | null
  last_attempt: number | null
  last_at: string | null
}

interface TargetsResult {
  targets: ListedTarget[]
  couriers: number
  /** Where the targets stand; `readable` is false when it is not here. */
  file: { path: string; readable: boolean }
  as_of: string
}

export const webhooksTargetsCommand = defineCommand<object, TargetsResult>({
  name: 'webhooks targets',
  needs: [],
  async run({ platform, signal }) {
    const { eventLog, relational } = platform.engines
    const { places, codec } = platform
    const { path, names } = namedTargets(platform.env)
    const { couriers, targets } = await readTargetStatuses(
      { eventLog, relational, places, codec, signal },
      names ?? [],
    )
    return {
      targets: targets.map((one) => listed(one, names)),
      couriers,
      file: { path, readable: names !== null },
      as_of: new Date().toISOString(),
    }
  },
})

export function registerWebhooksTargets(webhooks: Program, cli: Cli): void {
  const targets = webhooks
    .command('targets')
    .description('what waits for each target, since when, and what came of the last attempt')
  describe(targets, 'flotilla webhooks targets').action(async ({ json }: { json?: boolean }) => {
    await cli.run(webhooksTargetsCommand, {}, { json, render })
  })
}

function listed(status: TargetStatus, names: ReadonlySet<string> | null): ListedTarget {
  const { target, partition, lag, head, lastReport, last } = status
  // What the courier said while something waited is over once nothing does.
  const open = lag > 0 && lastReport?.breaker === 'open'
  const nextAt = lag > 0 ? (lastReport?.next_attempt_at ?? null) : null
  return {
    target,
    state: stateOf(status, names, open),
    partition,
    lag,
    head_sequence: head?.sequence ?? null,
    head_age_s: head && Math.max(0, Math.round((Date.now() - head.receivedAtMs) / 1_000)),
    breaker: open ? 'open' : 'closed',
    next_attempt_at: nextAt === null ? null : new Date(nextAt).toISOString(),
    last_status: last?.status ?? null,
    last_fault: last?.fault ?? null,
    last_sequence: last?.sequence ?? null,
    last_attempt: last?.attempt ?? null,
    last_at: last && new Date(last.occurred_at).toISOString(),
  }
}

function stateOf(
  { target, partition, lag, last, head }: TargetStatus,
  names: ReadonlySet<string> | null,
  open: boolean,
): TargetState {
  if (names !== null && !names.has(target)) return 'removed'
  if (partition === null) return 'new'
  if (lag === 0) return 'idle'
  if (open) return 'outage'
  return last?.kind === 'retry' && last.sequence === head?.sequence ? 'retrying' : 'delivering'
}

function render({ targets, couriers, file }: TargetsResult): string {
  const notes = [
    ...(file.readable
      ? []
      : [`${file.path} cannot be read here: targets without a partition are not listed`]),
    ...(couriers === 0 && targets.some(({ lag }) => lag > 0)
      ? ['no courier is running: nothing is delivered']
      : []),
  ]
  if (targets.length === 0) return [...notes, `no targets; they stand in ${file.path}`].join('\n')
  const head = ['target', 'state', 'waiting', 'head', 'head age', 'breaker', 'next try', 'last', 'at']
  const rows = targets.map((one) => [
    one.target,
    one.state,
    one.lag,
    one.head_sequence,
    one.head_age_s === null ? null : age(one.head_age_s),
    one.breaker,
    one.next_attempt_at,
    one.last_status ?? one.last_fault,
    one.last_at,
  ])
  return [...notes, table(head, rows)].join('\n')
}

function age(totalS: number): string {
  if (totalS < 120) return `${totalS} s`
  return totalS < 7_200 ? `${Math.floor(totalS / 60)} min` : `${Math.floor(totalS / 3_600)} h`
}
