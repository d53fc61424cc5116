/** `flotilla webhooks`: the targets, what waits for them, and what was given up. */

import type { Command as Program } from 'commander'
import { webhookActions } from '#operations/webhooks/actions.ts'
import type { Cli } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'
import { registerWebhooksCheck } from './webhooks-check.ts'
import { registerWebhooksFire } from './webhooks-fire.ts'

export function registerWebhooks(program: Program, cli: Cli): void {
  const webhooks = program
    .command('webhooks')
    .description('events for receivers elsewhere: targets, fire, dead letters')
  registerWebhooksCheck(webhooks, cli)
  registerWebhooksFire(webhooks, cli)
  mountActions(webhooks, cli, webhookActions, { 'dead-letters': 'deliveries that were given up, and why' })
}
