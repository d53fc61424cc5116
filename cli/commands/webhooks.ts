/** `flotilla webhooks`: the targets, what waits for them, and what was given up. */

import type { Command as Program } from 'commander'
import type { Cli } from '../cli.ts'
import { registerWebhooksCheck } from './webhooks-check.ts'
import { registerWebhooksDeadLetters } from './webhooks-dead-letters.ts'
import { registerWebhooksFire } from './webhooks-fire.ts'
import { registerWebhooksSkip } from './webhooks-skip.ts'
import { registerWebhooksTargets } from './webhooks-targets.ts'

export function registerWebhooks(program: Program, cli: Cli): void {
  const webhooks = program
    .command('webhooks')
    .description('events for receivers elsewhere: targets, fire, dead letters')
  registerWebhooksCheck(webhooks, cli)
  registerWebhooksFire(webhooks, cli)
  registerWebhooksTargets(webhooks, cli)
  registerWebhooksDeadLetters(webhooks, cli)
  registerWebhooksSkip(webhooks, cli)
}
