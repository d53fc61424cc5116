/** Fills a running platform with the content of a fixture, as agents and operators do, and records that content. */

import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, createClient, type JsonValue } from '#client/client.ts'
import { referenceAgents } from '#services/runs/reference-node/roster.ts'
import { eventually } from '../../test/support/eventually.ts'
import { deletedPoints, firstPoints, overwritingPoints, returningPoints, seededVector } from './content.ts'
import { fillWebhooks } from './fill-webhooks.ts'
import type { FixtureAgent, FixtureGroup, FixtureLetter, FixturePoint, StackManifest } from './manifest.ts'
import type { RunningStack } from './running-stack.ts'

/** The manifest without the parts that a running stack cannot report. */
export type Filled = Omit<StackManifest, 'schemas' | 'roles'>

const keeper = 'keeper'
const inForce = [keeper, 'scout', 'turned', 'researcher']

export async function fill(stack: RunningStack): Promise<Filled> {
  await provision(stack)
  const client = createClient({
    vectorUrl: stack.vectorUrl,
    agentId: keeper,
    privateKeyFile: keyOf(stack, keeper),
  })
  try {
    const operations = await writePoints(client)
    const hub = await writeHub(stack)
    await readThem(client)
    await changeAgents(stack)
    const targets = await fillWebhooks(stack)
    await stack.appendJunk?.('vectors.commands', 'posts/junk')
    const worker_dead_letters = await workerLetters(stack)
    await untilCaughtUp(stack)
    const audit_notes = await auditNotes(client)
    const { agents } = await stack.command<{ agents: FixtureAgent[] }>('agents', 'list')
    return {
      // The platform makes and names those itself.
      agents: agents.filter(({ agent_id }) => !referenceAgents.some(({ slug }) => slug === agent_id)),
      ...hub,
      keys: [
        ...inForce.map((agent_id) => ({ agent_id, file: keyFile(agent_id), in_force: true })),
        { agent_id: 'turned', file: 'agents/turned/before.pem', in_force: false },
        { agent_id: 'gone', file: keyFile('gone'), in_force: false },
      ],
      operations,
      audit_notes,
      ...targets,
      worker_dead_letters,
      groups: await untilCaughtUp(stack),
    }
  } finally {
    await client.close()
  }
}

const keyFile = (agentId: string) => join('agents', agentId, 'ed25519.pem')
const keyOf = ({ home }: RunningStack, agentId: string) => join(home, keyFile(agentId))

async function provision({ command }: RunningStack): Promise<void> {
  const make = (agentId: string, ...more: string[]) =>
    command('agents', 'provision', '--agent-id', agentId, ...more)
  await make(keeper, '--tier', 'infra-architect', '--access', 'admin', '--role', 'keeper of the fixture')
  await make('scout')
  await make('turned', '--access', 'viewer')
  await make('researcher', '--tier', 'research-agent', '--quota', '1234')
  await make('gone')
}

/** One agent has another key, one another tier, and one is deleted; of them, too, there are audit notes. */
async function changeAgents(stack: RunningStack): Promise<void> {
  for (const agentId of ['scout', 'turned', 'gone']) {
    const client = createClient({
      vectorUrl: stack.vectorUrl,
      agentId,
      privateKeyFile: keyOf(stack, agentId),
    })
    await client.count('posts')
    await client.close()
  }
  copyFileSync(keyOf(stack, 'turned'), join(stack.home, 'agents', 'turned', 'before.pem'))
  await stack.command('agents', 'rotate', 'turned', '--force')
  await stack.command('agents', 'tier', 'scout', 'research-agent')
}

/** The ids of the operations, all of them applied. */
async function writePoints(client: Client): Promise<string[]> {
  const operations: string[] = []
  const upsert = async (points: FixturePoint[]) => {
    for (const [collection, some] of byCollection(points)) {
      const written = some.map(({ id, seed, payload }) => ({ id, vector: seededVector(seed), payload }))
      operations.push((await client.upsert(collection, written)).operation_id)
    }
  }
  await upsert(firstPoints())
  await upsert(overwritingPoints())
  for (const [collection, some] of byCollection(deletedPoints())) {
    const ids = some.map(({ id }) => id)
    operations.push((await client.delete(collection, ids)).operation_id)
  }
  await upsert(returningPoints())
  for (const operation of operations) {
    const { status, error } = await client.waitFor(operation)
    if (status !== 'applied') throw new Error(`an operation is ${status}: ${error}`)
  }
  return operations
}

/** A thread of two notes, and goals in two states. */
async function writeHub({ command }: RunningStack): Promise<Pick<StackManifest, 'notes' | 'goals'>> {
  const { id } = await command<{ id: number }>('notes', 'add', 'The lamp is dark', '--body', 'Since noon.')
  await command('notes', 'reply', String(id), '--body', 'A fuse. It shines again.', '--author', keeper)
  await command('goals', 'add', 'Paint the tower')
  const goal = await command<{ id: number }>('goals', 'add', 'Mend the lamp')
  await command('goals', 'set', String(goal.id), '--status', 'active')
  const { notes } = await command<{ notes: NonNullable<StackManifest['notes']> }>('notes', 'list')
  const { goals } = await command<{ goals: NonNullable<StackManifest['goals']> }>('goals', 'list')
  return {
    notes: notes.map(({ id, subject, status }) => ({ id, subject, status })),
    goals: goals.map(({ id, title, status }) => ({ id, title, status })),
  }
}

/** Reads leave audit notes, those that are refused, too. */
async function readThem(client: Client): Promise<void> {
  const vector = seededVector(50_000)
  await client.search({ collection: 'knowledgebase', vector, limit: 3 })
  await client.searchPg({ vector, limit: 3, filterSql: "status = 'active'" })
  await client.scroll({ collection: 'posts', limit: 5 })
  await client.get('posts', 'post-000')
  await client.get('posts', 'never-there').catch(() => {})
  await client.embeddings('The lighthouse is repaired')
}

function byCollection<T extends { collection: string }>(points: T[]): Map<string, T[]> {
  return Map.groupBy(points, ({ collection }) => collection)
}

async function auditNotes(client: Client): Promise<StackManifest['audit_notes']> {
  const found: StackManifest['audit_notes'] = []
  for await (const { id, payload } of client.scrollAll({ collection: 'fleet_notes', limit: 100 })) {
    if (id.startsWith('audit-')) found.push({ id, payload: payload as { [key: string]: JsonValue } })
  }
  if (found.length < 10) throw new Error(`only ${found.length} audit notes`)
  return found
}

async function workerLetters(stack: RunningStack): Promise<FixtureLetter[]> {
  const list = async () => {
    const { dead_letters } = await stack.command<{ dead_letters: FixtureLetter[] }>('dead-letters', 'list')
    return dead_letters
      .filter(({ topic }) => topic !== 'webhooks.deliveries')
      .map(({ topic, group, recordKey }) => ({ topic, group, recordKey }))
  }
  if (!stack.appendJunk) return list()
  // Each of the two writers gives it up.
  return eventually('the dead letters of both writers', async () => {
    const letters = await list()
    return letters.length === 2 ? letters : undefined
  })
}

/** Events pending for a target are no lag. */
function untilCaughtUp({ command }: RunningStack): Promise<FixtureGroup[]> {
  return eventually('every group but the courier has read everything', async () => {
    const { groups } = await command<{ groups: FixtureGroup[] }>('lag')
    const read = groups.every(({ group, lag }) => lag === 0 || group === 'webhook-courier')
    return read ? groups : undefined
  })
}
