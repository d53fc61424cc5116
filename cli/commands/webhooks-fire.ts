/** `flotilla webhooks fire`: sends an event, from flags or JSON, to the relay over HTTP. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { InvalidArgumentError, type Command as Program } from 'commander'
import type { ProblemError } from '#client/problem-error.ts'
import type { FireAnswer, FiredEvent } from '#client/types.ts'
import { AppError } from '#lib/errors.ts'
import { type Shown, tableOf } from '#operations/action.ts'
import { readAddresses } from '#runtime/start/addresses.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { firedEvents } from '#services/webhooks/event.ts'
import { parseExact } from '#stidx/exact-json.ts'
import { type Cli, describe, numberReader, withWide } from '../cli.ts'
import { printResult } from '../output.ts'

interface FireOptions {
  event?: string
  agent?: string
  taskId?: string
  result?: unknown
  ts?: number
  file?: string
  targets?: string[]
  webhookUrl?: string
  json?: boolean
  wide?: boolean
}

const seconds = numberReader(0, 999_999_999_999, 'a whole number of seconds')

export function registerWebhooksFire(webhooks: Program, cli: Cli): void {
  const fire = webhooks
    .command('fire')
    .description('send an event to the relay; accepted means that the log holds a delivery for each target')
    .option('--event <event>', firedEvents.join(', '))
    .option('--agent <agent>', 'the agent that reports it, for example ATLAS')
    .option('--task-id <id>', 'of the task; for agent.spawned and agent.terminated any id of that occasion')
    .option('--result <json>', 'of the task, any JSON', parsed)
    .option('--ts <seconds>', 'when, Unix time (default: now)', seconds)
    .option('--file <file>', 'the event as JSON, `-` for standard input; flags override its fields')
    .option('--targets <names>', 'only these, comma-separated (default: all whose lists match)', names)
    .option(
      '--webhook-url <url>',
      'of the relay (default: WEBHOOK_GATEWAY, else the one of the data directory)',
    )
  describe(
    withWide(fire),
    `flotilla webhooks fire --event task.completed --agent ATLAS --task-id t-1 --result '{"pages": 3}'
flotilla webhooks fire --file event.json --targets audit-log`,
  ).action(async (options: FireOptions) => {
    const event = eventOf(options)
    const answer = await send(cli, event, options)
    printResult(options.json, answer, () => render(answer), { wide: options.wide })
  })
}

function eventOf(options: FireOptions): FiredEvent {
  const read = options.file === undefined ? {} : readEvent(options.file)
  const flags = {
    event: options.event,
    agent: options.agent,
    task_id: options.taskId,
    result: options.result,
    ts: options.ts,
  }
  const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined))
  const event: Partial<FiredEvent> = { ...read, ...given }
  const missing = [
    ...(event.event === undefined ? ['--event'] : []),
    ...(event.agent === undefined ? ['--agent'] : []),
    ...(event.task_id === undefined ? ['--task-id'] : []),
  ]
  if (missing.length > 0) {
    throw new AppError('bad_request', `Say ${missing.join(', ')}, or give the whole event with --file.`)
  }
  // What it holds is checked by the relay, which says what is wrong.
  return event as FiredEvent
}

function readEvent(file: string): object {
  const named = file === '-' ? 'Standard input' : resolve(file)
  let text: string
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    throw new AppError('bad_request', `${named} cannot be read (${code}).`)
  }
  try {
    const event: unknown = parseExact(text)
    if (event !== null && typeof event === 'object' && !Array.isArray(event)) return event
  } catch {
    // Refused below.
  }
  throw new AppError('bad_request', `${named} is no JSON object.`)
}

async function send(cli: Cli, event: FiredEvent, { targets, webhookUrl }: FireOptions): Promise<FireAnswer> {
  const home = homeOf(cli.env)
  const running = readAddresses(home)?.webhook_url
  // Port 0 lets the relay choose: then only the address that it wrote down says where it is.
  const named = /:0\/?$/.test(cli.env.WEBHOOK_GATEWAY ?? '') ? undefined : cli.env.WEBHOOK_GATEWAY
  const url = webhookUrl || named || running
  if (typeof url !== 'string') {
    // Another platform may listen on the usual port: it is not the one that is meant.
    throw new AppError(
      'not_found',
      `No relay runs on ${home}. Start the platform with \`npx flotilla start\`, or name another relay with --webhook-url or WEBHOOK_GATEWAY.`,
    )
  }
  const { createWebhookClient } = await import('#client/webhooks.ts')
  const client = createWebhookClient({ webhookUrl: url, timeoutMs: 10_000, attemptsMax: 4 })
  try {
    return await client.fire(event, { ...(targets ? { targets } : {}), signal: cli.signal })
  } catch (error) {
    throw explained(error, url)
  } finally {
    await client.close()
  }
}

/** Names the relay that gave no answer. */
function explained(error: unknown, url: string): unknown {
  if (!(error instanceof Error) || error.name !== 'ProblemError') return error
  const { code } = error as ProblemError
  if (code === 'no_answer') {
    return new AppError(
      'not_found',
      `No relay answers at ${url}. Start the platform with \`npx flotilla start\`, or name the relay with WEBHOOK_GATEWAY.`,
    )
  }
  return error
}

function render({ idempotency_key, deliveries }: FireAnswer): Shown {
  if (deliveries.length === 0) return [`${idempotency_key}: no target's lists match, so nothing is delivered`]
  const rows = tableOf(deliveries, { target: ({ target }) => target, sequence: ({ sequence }) => sequence })
  return [idempotency_key, rows]
}

function parsed(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    throw new InvalidArgumentError('It must be JSON.')
  }
}

function names(text: string): string[] {
  return text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}
