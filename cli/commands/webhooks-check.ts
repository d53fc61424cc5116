/** `flotilla webhooks check`: a targets file read as the platform reads it, without a platform. */

import { resolve } from 'node:path'
import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { redact } from '#services/webhooks/targets/secrets.ts'
import { targetsFileOf } from '#services/webhooks/targets/settings.ts'
import type { WebhookTarget, WebhookTargets } from '#services/webhooks/targets/target.ts'
import { backoffWithin, type TargetTraffic, targetLoad } from '#services/webhooks/targets/target-load.ts'
import { loadTargets } from '#services/webhooks/targets/targets-file.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { table } from '../output.ts'

/** Above this load an ordered lane recovers slowly from every hiccup. */
const loadMax = 0.8

interface CheckResult {
  ok: boolean
  file: string
  faults: { line: number | null; place: string; message: string }[]
  targets: CheckedTarget[]
  warnings: { target: string; message: string }[]
}

interface CheckedTarget {
  target: string
  url: string
  events: readonly string[] | null
  agents: readonly string[] | null
  ordering: string
  retry: number
  backoff_ms: number
  signed: boolean
}

interface CheckOptions {
  rate: number
  failures: number
  callMs: number
  json?: boolean
}

export function registerWebhooksCheck(webhooks: Program, cli: Cli): void {
  const check = webhooks
    .command('check')
    .argument(
      '[file]',
      'the targets file (default: WEBHOOK_TARGETS_FILE, else targets.yaml in the data directory)',
    )
    .description('reads a targets file as the platform does, and names every fault with its line')
    .option('--rate <events>', 'events a second and target, for the warning about back-offs', positive, 20)
    .option('--failures <percent>', 'of all attempts', percent, 10)
    .option('--call-ms <ms>', 'how long a call takes', positive, 10)
  describe(check, 'flotilla webhooks check targets.yaml').action(
    (file: string | undefined, options: CheckOptions) => {
      const path = file === undefined ? targetsFileOf(cli.env).path : resolve(file)
      const result = checkFile(cli, path, options)
      console.log(options.json ? JSON.stringify(result) : render(result))
      if (!result.ok) cli.setExitCode(exitRefused)
    },
  )
}

function checkFile(cli: Cli, path: string, options: CheckOptions): CheckResult {
  const found: CheckResult = { ok: true, file: path, faults: [], targets: [], warnings: [] }
  try {
    const loaded = loadTargets(path, cli.env)
    const traffic = { ratePerS: options.rate, failedShare: options.failures / 100, callMs: options.callMs }
    const targets = [...loaded.targets.values()]
    return {
      ...found,
      targets: targets.map((target) => checkedOf(target, loaded)),
      warnings: targets.flatMap((target) => warningsOf(target, traffic)),
    }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_configuration') throw error
    return { ...found, ok: false, faults: faultsOf(error) }
  }
}

function faultsOf(error: AppError): CheckResult['faults'] {
  if (!error.errors) return [{ line: null, place: '', message: error.message }]
  const faults = error.errors.map(({ path, message }) => {
    const [, line, place = ''] = /^line (\d+)(?:, (.*))?$/.exec(path) ?? []
    return { line: line === undefined ? null : Number(line), place, message }
  })
  return faults.sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}

/** A URL may hold a token. */
function checkedOf(target: WebhookTarget, { secrets }: WebhookTargets): CheckedTarget {
  return {
    target: target.name,
    url: redact(target.url.href, secrets),
    events: target.events,
    agents: target.agents,
    ordering: target.ordering,
    retry: target.retry,
    backoff_ms: target.backoffMs,
    signed: target.signingSecrets.length > 0,
  }
}

function warningsOf(target: WebhookTarget, traffic: TargetTraffic): CheckResult['warnings'] {
  // The lanes of agents share the rate in a way that nobody knows beforehand.
  if (target.ordering === 'agent') return []
  const load = targetLoad(target, traffic)
  if (load <= loadMax) return []
  const { ratePerS, failedShare, callMs } = traffic
  const enough = backoffWithin(loadMax, target.retry, traffic)
  const assumed = `at ${ratePerS} events a second, ${failedShare * 100} % failed attempts and ${callMs} ms a call`
  const advice =
    enough === null ? 'the calls alone take too long: consider ordering: agent' : `at most ${enough} would do`
  const what = load >= 1 ? 'the target falls behind without end' : 'the target hardly catches up'
  return [
    {
      target: target.name,
      message: `backoff_ms ${target.backoffMs}: ${assumed} ${what} (its lane is busy ${Math.round(load * 100)} % of the time); ${advice}`,
    },
  ]
}

function render({ ok, file, faults, targets, warnings }: CheckResult): string {
  if (!ok) {
    const lines = faults.map(({ line, place, message }) =>
      [line === null ? '' : `line ${line}: `, place === '' ? '' : `${place} `, message].join(''),
    )
    return [`${file} has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:`, ...lines].join(
      '\n',
    )
  }
  const rows = targets.map((one) => [
    one.target,
    one.url,
    one.events?.join(' ') ?? 'all',
    one.agents?.join(' ') ?? 'all',
    one.ordering,
    `${one.retry} from ${one.backoff_ms} ms`,
    one.signed ? 'yes' : 'no',
  ])
  const head = ['target', 'url', 'events', 'agents', 'ordering', 'retries', 'signed']
  return [
    ...(targets.length > 0 ? [table(head, rows)] : []),
    ...warnings.map(({ target, message }) => `warning: ${target}: ${message}`),
    `${file} is sound: ${targets.length} target${targets.length === 1 ? '' : 's'}`,
  ].join('\n')
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
