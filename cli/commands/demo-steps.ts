/** The steps of `flotilla demo`: agents, documents, notes, goals, webhooks and runs, through the interfaces that everybody uses. */

import type { Client } from '#client/client.ts'
import { AppError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { listAgentsAction } from '#operations/agents/actions.ts'
import { listNotesAction, replyNoteAction } from '#operations/notes.ts'
import { referenceAgents } from '#services/runs/reference-node/roster.ts'
import type { Cli } from '../cli.ts'
import { type DemoFleet, demoRole, demoTag, readFleet } from './demo-fleet.ts'
import { fireEvents, removeTargets } from './demo-webhooks.ts'
import {
  type Addresses,
  clientOf,
  deletePoints,
  dispatched,
  ensureAgent,
  findAgent,
  isWithoutAgents,
  removeAgent,
} from './example-agents.ts'
import { openShown, timed, tourAgent } from './tour-parts.ts'

const operator = 'operator'
const collections = ['knowledgebase', 'posts', 'almemsha']

export interface DemoResult {
  /** True where an earlier demo is there: then nothing was made. */
  already: boolean
  agents: string[]
  documents: number
  notes: number[]
  goals: number[]
  runs: string[]
  dispatches: number[]
  webhooks: { deliveries: number; dead_letters: number }
  /** Parts that were left out, and why. */
  left_out: string[]
  steps: { step: string; took_ms: number; found: string }[]
  console_url: string | null
}

interface Demo {
  cli: Cli
  fleet: DemoFleet
  /** By agent id. */
  clients: ReadonlyMap<string, Client>
  result: DemoResult
}

/** Throws AppError `conflict` where the platform is in use, unless `force` is set. */
export async function runDemo(
  cli: Cli,
  addresses: Addresses,
  { force, quiet }: { force: boolean; quiet: boolean },
): Promise<DemoResult> {
  const fleet = readFleet()
  const result: DemoResult = {
    already: false,
    agents: [],
    documents: 0,
    notes: [],
    goals: [],
    runs: [],
    dispatches: [],
    webhooks: { deliveries: 0, dead_letters: 0 },
    left_out: [],
    steps: [],
    console_url: addresses.consoleUrl ?? null,
  }
  const inUse = await usersOf(cli)
  if (inUse.demo.length > 0) return { ...result, already: true, agents: inUse.demo }
  if (inUse.others.length > 0 && !force) {
    throw new AppError(
      'conflict',
      `This platform is in use (${inUse.others.join(', ')}), and the demo would be mixed with that. Take an empty one with ` +
        'FLOTILLA_HOME, or use --force.',
    )
  }
  refuseMissing(addresses)
  for (const agent of fleet.agents) await findAgent(cli, agent)
  const { output, say } = openShown(quiet)
  const began = { cli, output, result, say }
  const clients = new Map<string, Client>()
  const demo: Demo = { cli, fleet, clients, result }
  try {
    const step = (name: string, work: () => Promise<string>) => timed(began, name, work, (found) => found)
    await step('provision the agents', async () => {
      for (const agent of fleet.agents) {
        const { file } = await ensureAgent(cli, agent)
        clients.set(agent.agent_id, clientOf(addresses, agent.agent_id, file))
        result.agents.push(agent.agent_id)
      }
      return result.agents.join(', ')
    })
    await step('store documents', () => storeDocuments(demo))
    await step('write notes in threads', () => writeNotes(demo))
    await step('set goals', () => setGoals(demo))
    await step('fire events at webhook targets', () => fire(demo))
    await step('talk to the agents', () => talk(demo))
    return result
  } catch (error) {
    if (!cli.signal.aborted) throw error
    throw new AppError(
      'shutting_down',
      'The demo was interrupted. What it made stays: `flotilla demo --clean` removes it.',
    )
  } finally {
    output.end()
    for (const client of clients.values()) await client.close()
  }
}

/** Agents of an earlier demo, and what shows that others use the platform. */
async function usersOf(cli: Cli): Promise<{ demo: string[]; others: string[] }> {
  const { agents } = await cli.execute(listAgentsAction, {})
  const [demo, rest] = [agents.filter(isDemo), agents.filter((agent) => !isDemo(agent))]
  const ours = new Set([...referenceAgents.map(({ slug }) => slug), tourAgent.agent_id])
  const { notes } = await cli.execute(listNotesAction, { limit: 1_000 })
  const foreign = notes.filter(({ author }) => !ours.has(author))
  const agentIds = rest.map(({ agent_id }) => agent_id).filter((id) => !ours.has(id))
  return {
    demo: demo.map(({ agent_id }) => agent_id),
    others: [
      ...(agentIds.length > 0 ? [`agents: ${agentIds.slice(0, 5).join(', ')}`] : []),
      ...(foreign.length > 0 ? [plural(foreign.length, 'note')] : []),
    ],
  }
}

const isDemo = ({ role }: { role: string }) => role.startsWith(demoRole)

function refuseMissing({ hubUrl, runUrl, webhookUrl }: Addresses): void {
  const missing = Object.entries({
    'the hub': hubUrl,
    'the run gateway': runUrl,
    'the webhook relay': webhookUrl,
  })
    .filter(([, url]) => url === undefined)
    .map(([name]) => name)
  if (missing.length === 0) return
  throw new AppError(
    'not_found',
    `The demo needs the whole platform: ${missing.join(' and ')} does not run here. Start it with \`npx flotilla start\`.`,
  )
}

/** Throws where demo-fleet.yaml names somebody else. */
function clientNamed({ clients }: Demo, id: string): Client {
  const client = clients.get(id)
  if (client) return client
  throw new AppError('internal_error', `demo-fleet.yaml names ${id}, which is none of its agents.`)
}

async function storeDocuments(demo: Demo): Promise<string> {
  const { cli, fleet, result } = demo
  for (const [n, { collection, by, title, text }] of fleet.documents.entries()) {
    const client = clientNamed(demo, by)
    const payload = {
      title,
      collection,
      status: 'active',
      tags: [demoTag, by],
      updated_at: new Date().toISOString(),
    }
    await client.remember(collection, [{ id: `demo-${n + 1}`, text, payload }], { signal: cli.signal })
    result.documents++
  }
  return plural(result.documents, 'document')
}

async function writeNotes(demo: Demo): Promise<string> {
  const { cli, fleet, result } = demo
  const { signal } = cli
  for (const { by, replies = [], status, ...note } of fleet.threads) {
    const { id } = await clientNamed(demo, by).notes.create(note, { signal })
    result.notes.push(id)
    const subject = `Re: ${note.subject}`
    for (const { by: author, body } of replies) {
      const reply = { parent_id: id, subject, body }
      const made =
        author === operator
          ? await cli.execute(replyNoteAction, reply)
          : await clientNamed(demo, author).notes.create(reply, { signal })
      result.notes.push(made.id)
    }
    if (status !== undefined) await clientNamed(demo, by).notes.update(id, { status }, { signal })
  }
  return `${plural(result.notes.length, 'note')} in ${plural(fleet.threads.length, 'thread')}`
}

async function setGoals(demo: Demo): Promise<string> {
  const { signal } = demo.cli
  for (const { by, status, ...goal } of demo.fleet.goals) {
    const { goals } = clientNamed(demo, by)
    const { id } = await goals.create(goal, { signal })
    demo.result.goals.push(id)
    // A pending goal may become active or canceled; the others follow from active.
    if (status === 'completed' || status === 'failed')
      await goals.update(id, { status: 'active' }, { signal })
    if (status !== 'pending') await goals.update(id, { status }, { signal })
  }
  return plural(demo.result.goals.length, 'goal')
}

async function fire(demo: Demo): Promise<string> {
  const { cli, fleet, result } = demo
  const fired = await fireEvents(cli, clientNamed(demo, fleet.agents[0]!.agent_id), fleet)
  if (fired === undefined) {
    result.left_out.push('Webhooks: the platform has a targets file already, which the demo does not change.')
    return 'left out'
  }
  result.webhooks = fired
  const { deliveries, dead_letters } = fired
  return `${deliveries} deliveries, of which ${plural(dead_letters, 'dead letter')}`
}

async function talk(demo: Demo): Promise<string> {
  const { cli, fleet, result } = demo
  const { signal } = cli
  try {
    for (const { by, to, text } of fleet.runs) {
      const { run } = await clientNamed(demo, by).runs.run(to, text, { signal })
      result.runs.push(run.runId)
    }
    for (const { by, text } of fleet.dispatches) {
      const { goalId } = await dispatched(clientNamed(demo, by), text, signal)
      result.dispatches.push(goalId)
    }
  } catch (error) {
    if (!isWithoutAgents(error)) throw error
    result.left_out.push('Runs: the agents that the demo talks to do not run here.')
    return 'left out'
  }
  return `${plural(result.runs.length, 'run')}, ${result.dispatches.length} to all agents`
}

export interface RemovedDemo {
  agents: string[]
  points: number
  notes: number
  goals: number
  runs: number
  dispatches: number
  targets: number
  /** A targets file that is not the demo's alone. */
  kept_file: string | null
}

/** Null where nothing of a demo is there. */
export async function cleanDemo(cli: Cli, addresses: Addresses): Promise<RemovedDemo | null> {
  const fleet = readFleet()
  const { demo } = await usersOf(cli)
  const left = fleet.agents.filter(({ agent_id }) => demo.includes(agent_id))
  if (left.length === 0) return null
  const removed: RemovedDemo = {
    agents: [],
    ...{ notes: 0, goals: 0, runs: 0, dispatches: 0 },
    ...(await removeTargets(cli, addresses, fleet)),
    points: await deletePoints(cli, addresses, left[0]!, { collections, tag: demoTag }),
  }
  for (const agent of left) {
    const made = await removeAgent(cli, agent)
    removed.agents.push(agent.agent_id)
    for (const name of ['notes', 'goals', 'runs', 'dispatches'] as const) removed[name] += made[name]
  }
  return removed
}
