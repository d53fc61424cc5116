/** `flotilla webhooks`: the targets, what waits for them, and what was given up; and a check of the targets file. */

import { resolve } from 'node:path'
import { InvalidArgumentError, type Command as Program } from 'commander'
import { plural } from '#lib/plural.ts'
import { type Shown, tableOf } from '#operations/action.ts'
import { type CheckResult, checkTargetsFile } from '#operations/webhooks/check.ts'
import { webhookActions } from '#operations/webhooks/test-event.ts'
import { targetsFileOf } from '#services/webhooks/targets/targets-file.ts'
import { type Cli, describe, exitRefused, withWide } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'
import { printResult } from '../output.ts'
import { registerWebhooksFire } from './webhooks-fire.ts'

export function registerWebhooks(program: Program, cli: Cli): void {
  const webhooks = program
    .command('webhooks')
    .description('events for receivers elsewhere, and deliveries given up')
  registerWebhooksCheck(webhooks, cli)
  registerWebhooksFire(webhooks, cli)
  mountActions(webhooks, cli, webhookActions, { 'dead-letters': 'deliveries that were given up, and why' })
}

interface CheckOptions {
  rate: number
  failures: number
  callMs: number
  json?: boolean
  wide?: boolean
}

function registerWebhooksCheck(webhooks: Program, cli: Cli): void {
  const check = webhooks
    .command('check')
    .argument(
      '[file]',
      'the targets file (default: WEBHOOK_TARGETS_FILE, else targets.yaml in the data directory)',
    )
    .description('check a targets file as the platform reads it, and name every fault with its line')
    .option('--rate <events>', 'events a second and target, for the warning about back-offs', positive, 20)
    .option('--failures <percent>', 'of all attempts', percent, 10)
    .option('--call-ms <ms>', 'how long a call takes', positive, 10)
  describe(withWide(check), 'flotilla webhooks check targets.yaml').action(
    (file: string | undefined, { rate, failures, callMs, json, wide }: CheckOptions) => {
      const path = file === undefined ? targetsFileOf(cli.env).path : resolve(file)
      const result = checkTargetsFile(path, cli.env, { ratePerS: rate, failedShare: failures / 100, callMs })
      printResult(json, result, () => render(result), { wide })
      if (!result.ok) cli.exitCode = exitRefused
    },
  )
}

function render({ ok, file, faults, targets, warnings }: CheckResult): Shown {
  if (!ok) {
    const lines = faults.map(({ line: at, place, message }) => {
      const where = [at === null ? '' : `line ${at}: `, place === '' ? '' : `${place} `].join('')
      return `${where}${message}`
    })
    return [`${file} has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:`, ...lines]
  }
  const columns = tableOf(targets, {
    target: ({ target }) => target,
    url: ({ url }) => url,
    events: ({ events }) => events?.join(' ') ?? 'all',
    agents: ({ agents }) => agents?.join(' ') ?? 'all',
    ordering: ({ ordering }) => ordering,
    retries: ({ retry, backoff_ms }) => `${retry} from ${backoff_ms} ms`,
    signed: ({ signed }) => (signed ? 'yes' : 'no'),
  })
  return [
    ...(targets.length > 0 ? [columns] : []),
    ...warnings.map(({ target, message }) => `warning: ${target}: ${message}`),
    `${file} is sound: ${plural(targets.length, 'target')}`,
  ]
}

function positive(text: string): number {
  const number = Number(text)
  if (Number.isFinite(number) && number > 0) return number
  throw new InvalidArgumentError('It must be a number above 0.')
}

function percent(text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && number >= 0 && number <= 100) return number
  throw new InvalidArgumentError('It must be a number from 0 to 100.')
}
