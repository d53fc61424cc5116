/** The agents of `flotilla tour` and `flotilla demo`: made or found again, and removed with all that they made. */

import { existsSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Client, createClient } from '#client/client.ts'
import { AppError } from '#lib/errors.ts'
import { deleteAgentAction, listAgentsAction } from '#operations/agents/actions.ts'
import { clearAgentAction } from '#operations/agents/clear.ts'
import { provisionAgentAction, rotateAgentAction } from '#operations/agents/keys.ts'
import { consoleUrlOf, readAddresses } from '#runtime/start/addresses.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { defaultKeyFile, type Tier } from '#services/access/agents/agents.ts'
import type { Cli } from '../cli.ts'

export interface ExampleAgent {
  agent_id: string
  /** Tells it from an agent of somebody else under the same id. */
  role: string
  name?: string
  tier?: Tier
}

export interface Addresses {
  vectorUrl: string
  /** Undefined where these services do not run on the data directory. */
  runUrl: string | undefined
  hubUrl: string | undefined
  webhookUrl: string | undefined
  consoleUrl: string | undefined
}

/** Where the platform of the data directory listens. Throws AppError `not_found` where none runs; `again` names the command. */
export function runningAddresses({ env }: Cli, again: string, vectorUrl?: string): Addresses {
  const home = homeOf(env)
  const found = readAddresses(home)
  const named = (name: string) => (typeof found?.[name] === 'string' ? found[name] : undefined)
  const vector = vectorUrl ?? named('vector_url')
  if (vector === undefined) {
    throw new AppError(
      'not_found',
      `No vector gateway runs on ${home}. Start the platform in another terminal with \`npx flotilla start\`, wait until it is ready, ` +
        `and run \`${again}\` again.`,
    )
  }
  return {
    vectorUrl: vector,
    runUrl: named('agent_gateway_url'),
    hubUrl: named('hub_url'),
    webhookUrl: named('webhook_url'),
    consoleUrl: consoleUrlOf(found === null ? {} : stringsOf(found), env),
  }
}

function stringsOf(found: Record<string, string | number>): Record<string, string> {
  return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(value)]))
}

/** Throws AppError `conflict` where an agent of another role has the id. */
export async function findAgent(cli: Cli, { agent_id, role }: ExampleAgent) {
  const { agents } = await cli.execute(listAgentsAction, {})
  const found = agents.find((one) => one.agent_id.toLowerCase() === agent_id)
  if (found === undefined || found.role === role) return found
  throw new AppError(
    'conflict',
    `The platform has an agent ${agent_id} of its own (role ${found.role.slice(0, 64)}): delete it, or give it another id first.`,
  )
}

/** Makes the agent, or finds it again; its key is where keys are. Resolves with the key's file. */
export async function ensureAgent(cli: Cli, agent: ExampleAgent): Promise<{ file: string; isNew: boolean }> {
  const found = await findAgent(cli, agent)
  const file = defaultKeyFile(homeOf(cli.env), agent.agent_id)
  if (found && existsSync(file)) return { file, isNew: false }
  const { private_key_file } = found
    ? await cli.execute(rotateAgentAction, { agent_id: agent.agent_id, force: true })
    : await cli.execute(provisionAgentAction, { ...agent, force: true })
  return { file: private_key_file, isNew: found === undefined }
}

export function clientOf(
  { vectorUrl, runUrl, hubUrl, webhookUrl }: Addresses,
  id: string,
  file: string,
): Client {
  const waitOutLimitsMs = 60_000
  return createClient({
    vectorUrl,
    runUrl,
    hubUrl,
    webhookUrl,
    agentId: id,
    privateKeyFile: file,
    waitOutLimitsMs,
  })
}

const deletedAtOnce = 500

/** Deletes the points of this tag but those of `kept`. Resolves with their number. */
export async function deleteTagged(
  client: Client,
  {
    collections,
    tag,
    kept,
    signal,
  }: { collections: readonly string[]; tag: string; kept?: ReadonlySet<string>; signal: AbortSignal },
): Promise<number> {
  let deleted = 0
  for (const collection of collections) {
    const filter = { must: [{ key: 'tags', match: { value: tag } }] }
    const ids: string[] = []
    for await (const { id } of client.scrollAll({
      collection,
      filter,
      limit: 1_000,
      withPayload: false,
      signal,
    }))
      if (!kept?.has(id)) ids.push(id)
    for (let from = 0; from < ids.length; from += deletedAtOnce) {
      const accepted = await client.delete(collection, ids.slice(from, from + deletedAtOnce), {
        wait: true,
        signal,
      })
      await client.waitFor(accepted, { signal })
    }
    deleted += ids.length
  }
  return deleted
}

/** Deletes the points of this tag in the name of an agent that is there. Resolves with their number. */
export async function deletePoints(
  cli: Cli,
  addresses: Addresses,
  agent: ExampleAgent,
  of: { collections: readonly string[]; tag: string },
): Promise<number> {
  const { file } = await ensureAgent(cli, agent)
  const client = clientOf(addresses, agent.agent_id, file)
  try {
    return await deleteTagged(client, { ...of, signal: cli.signal })
  } finally {
    await client.close()
  }
}

/** Codes of faults where the nodes file names other agents, or none of them runs. */
const noAgents: ReadonlySet<unknown> = new Set(['agent_not_found', 'node_unavailable'])

export function isWithoutAgents(error: unknown): boolean {
  return noAgents.has((error as { code?: unknown }).code)
}

/** Sends a message to all agents; resolves with the dispatch when it has ended. */
export async function dispatched(client: Client, text: string, signal: AbortSignal) {
  const { goalId } = await client.runs.dispatch(text, { signal })
  const stream = await client.runs.dispatches.stream(goalId, { signal })
  for await (const _ of stream) signal.throwIfAborted()
  return { goalId, ended: stream.result! }
}

/** Removes the agent's notes, goals, runs and dispatches, the agent itself and its key. The agent must be there. */
export async function removeAgent(cli: Cli, { agent_id }: ExampleAgent) {
  const removed = await cli.execute(clearAgentAction, { agent_id })
  await cli.execute(deleteAgentAction, { agent_id })
  rmSync(dirname(defaultKeyFile(homeOf(cli.env), agent_id)), { recursive: true, force: true })
  return removed
}
