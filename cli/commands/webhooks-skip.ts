/** `flotilla webhooks skip` and `forget`: an operator gives up the oldest waiting record of a target, or the target itself. */

import type { Command as Program } from 'commander'
import { counted } from '#lib/counted.ts'
import {
  type ForgetResult,
  forgetTargetOperation,
  type SkipResult,
  skipHeadOperation,
} from '#operations/webhooks/skip.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { line } from '../output.ts'

export function registerWebhooksSkip(webhooks: Program, cli: Cli): void {
  const skip = webhooks
    .command('skip')
    .argument('<target>', 'its name')
    .description(
      'park the head of a target, its oldest waiting record, so that delivery continues with the next one',
    )
  describe(skip, 'flotilla webhooks skip audit-log').action(
    async (target: string, { json }: { json?: boolean }) => {
      const { outcome } = await cli.run(skipHeadOperation, { target }, { json, render: renderSkip })
      if (outcome === 'waiting') cli.setExitCode(exitRefused)
    },
  )
  const forget = webhooks
    .command('forget')
    .argument('<target>', 'its name; take it out of the targets file first')
    .description('free the partition of a target that is no longer in the targets file')
    .option('--force', 'discard what waits for it and its dead letters')
  describe(forget, 'flotilla webhooks forget old-target').action(
    async (target: string, { json, force = false }: { json?: boolean; force?: boolean }) => {
      await cli.run(forgetTargetOperation, { target, force }, { json, render: renderForget })
    },
  )
}

function renderSkip({ target, sequence, outcome }: SkipResult): string {
  if (outcome === 'parked')
    return line`${target}: ${sequence} is now a dead letter, and delivery continues with the next one`
  if (outcome === 'delivered') return line`${target}: ${sequence} was delivered before it could be parked`
  return line`${target}: ${sequence} is marked; it is parked as soon as a courier runs`
}

function renderForget({ target, partition, discarded, dead_letters: kept }: ForgetResult): string {
  const gone = discarded > 0 ? `; discarded: ${counted(discarded, 'record')}` : ''
  const left = kept > 0 ? `; kept: ${counted(kept, 'dead letter')}` : ''
  return line`${target} is forgotten, and partition ${partition} is free${gone}${left}`
}
