/** `flotilla webhooks targets`: the status of every target. */

import type { Command as Program } from 'commander'
import { listTargetsOperation, type TargetsResult } from '#operations/webhooks/targets.ts'
import { type Cli, describe } from '../cli.ts'
import { line, table } from '../output.ts'

export function registerWebhooksTargets(webhooks: Program, cli: Cli): void {
  const targets = webhooks
    .command('targets')
    .description('what waits for each target, since when, and what came of the last attempt')
  describe(targets, 'flotilla webhooks targets').action(async ({ json }: { json?: boolean }) => {
    await cli.run(listTargetsOperation, {}, { json, render })
  })
}

function render({ targets, couriers, file }: TargetsResult): string {
  const notes = [
    ...(file.readable
      ? []
      : [line`${file.path} cannot be read here: targets without a partition are not listed`]),
    ...(couriers === 0 && targets.some(({ lag }) => lag > 0)
      ? ['no courier is running: nothing is delivered']
      : []),
  ]
  if (targets.length === 0) return [...notes, line`no targets; they are listed in ${file.path}`].join('\n')
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
