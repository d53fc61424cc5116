/** The webhook targets of `flotilla demo`: a targets file where others have none, receivers while the demo runs, and events for them. */

import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parse, stringify } from 'yaml'
import type { Client } from '#client/client.ts'
import { lookUntil } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { forgetTargetAction } from '#operations/webhooks/skip.ts'
import { listTargetsAction } from '#operations/webhooks/targets.ts'
import type { Cli } from '../cli.ts'
import type { DemoFleet } from './demo-fleet.ts'
import type { Addresses } from './example-agents.ts'

/** The relay reads a changed file within two seconds. */
const knownWithinMs = 30_000
const settledWithinMs = 60_000
const pollMs = 300
const healthTimeoutMs = 5_000
const header =
  '# Made by `flotilla demo`, whose receivers ended with it; `flotilla demo --clean` empties it.\n'

export interface FiredEvents {
  deliveries: number
  dead_letters: number
}

/** Undefined where a targets file of others is there: it is not changed. */
export async function fireEvents(
  cli: Cli,
  client: Client,
  fleet: DemoFleet,
): Promise<FiredEvents | undefined> {
  const { file } = await cli.execute(listTargetsAction, {})
  if (!isOwn(file.path, fleet)) return undefined
  const receivers = await openReceivers(fleet)
  try {
    write(file.path, targetsOf(fleet, receivers.url))
    let deliveries = 0
    for (const event of fleet.events) {
      deliveries += (await untilKnown(cli, () => client.webhooks.fire(event, { signal: cli.signal }), fleet))
        .length
    }
    await untilSettled(cli, fleet)
    return { deliveries, dead_letters: receivers.refused() }
  } finally {
    await receivers.close()
  }
}

/** Only events of the demo's agents: the receivers end with the demo. */
function targetsOf({ agents, targets }: DemoFleet, url: string) {
  const entries = targets.map(({ name, answer, events }) => [
    name,
    { url: `${url}/${answer}`, events, agents: agents.map(({ agent_id }) => agent_id) },
  ])
  return { targets: Object.fromEntries(entries) }
}

/** The last part of the path is the status that is answered. */
async function openReceivers({ targets }: DemoFleet) {
  const answers = new Set(targets.map(({ answer }) => answer))
  let refused = 0
  const server = createServer((request, response) => {
    request.resume()
    const status = Number(request.url?.split('/').at(-1))
    if (status >= 400) refused++
    response.writeHead(answers.has(status) ? status : 404).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    refused: () => refused,
    async close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Every event has a target: it is fired again while the relay knows none yet, which delivers nothing. */
async function untilKnown(
  cli: Cli,
  fire: () => ReturnType<Client['webhooks']['fire']>,
  { targets }: DemoFleet,
) {
  const look = async () => {
    const { deliveries } = await fire()
    return deliveries.length > 0 ? deliveries : undefined
  }
  const names = targets.map(({ name }) => name).join(', ')
  return within(
    cli,
    knownWithinMs,
    look,
    `The relay does not know ${names}: see \`flotilla webhooks check\`.`,
  )
}

async function untilSettled(cli: Cli, fleet: DemoFleet): Promise<void> {
  const look = async () => {
    const { targets } = await cli.execute(listTargetsAction, {})
    const own = targets.filter(({ target }) => fleet.targets.some(({ name }) => name === target))
    return own.every(({ lag, last_at }) => lag === 0 && last_at !== null) || undefined
  }
  const late = 'The events were not delivered in time: see `flotilla webhooks targets`.'
  await within(cli, settledWithinMs, look, late)
}

/** Throws AppError `not_yet_applied` with the text `late`. */
function within<T>(
  { signal }: Cli,
  withinMs: number,
  look: () => Promise<T | undefined>,
  late: string,
): Promise<T> {
  const give = () => {
    throw new AppError('not_yet_applied', late)
  }
  return lookUntil(look, { everyMs: pollMs, withinMs, signal, late: give })
}

/** Empties the targets file, unless it has targets of others, and forgets the demo's with their dead letters. */
export async function removeTargets(
  cli: Cli,
  { webhookUrl }: Addresses,
  fleet: DemoFleet,
): Promise<{ targets: number; kept_file: string | null }> {
  const { file, targets: listed } = await cli.execute(listTargetsAction, {})
  const left = listed.filter(({ target }) => fleet.targets.some(({ name }) => name === target))
  if (left.length === 0) return { targets: 0, kept_file: null }
  if (!isOwn(file.path, fleet)) return { targets: 0, kept_file: file.path }
  // Not removed: the platform goes on with what it has read where the file is gone.
  write(file.path, { targets: {} })
  const names = left.map(({ target }) => target)
  if (webhookUrl !== undefined) await untilGone(cli, webhookUrl, names)
  for (const name of names) await cli.execute(forgetTargetAction, { name, force: true })
  return { targets: left.length, kept_file: null }
}

function write(path: string, content: object): void {
  writeFileSync(path, header + stringify(content), { mode: 0o600 })
}

/** True where there is no file, or one of the demo to which nobody added anything. */
function isOwn(path: string, fleet: DemoFleet): boolean {
  if (!existsSync(path)) return true
  const text = readFileSync(path, 'utf8')
  if (!text.startsWith(header)) return false
  try {
    const { targets } = parse(text) as { targets?: object }
    return Object.keys(targets ?? {}).every((given) => fleet.targets.some(({ name }) => name === given))
  } catch {
    return false
  }
}

/** A relay that knows a target gives it a partition again. */
async function untilGone(cli: Cli, webhookUrl: string, names: readonly string[]): Promise<void> {
  const look = async () => {
    const signal = AbortSignal.any([cli.signal, AbortSignal.timeout(healthTimeoutMs)])
    const answer = await fetch(new URL('/health', webhookUrl), { signal })
    const { targets } = (await answer.json()) as { targets: Record<string, unknown> }
    return !names.some((name) => Object.hasOwn(targets, name)) || undefined
  }
  await within(cli, knownWithinMs, look, 'The relay did not read the targets file: see `flotilla doctor`.')
}
