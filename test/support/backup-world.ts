/** A platform under load while its owner backs it up: acknowledged writes are recorded with their times. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, createClient } from '#client/client.ts'
import { type Addresses, type SpawnOptions, spawnFlotilla, startFlotilla } from './flotilla-process.ts'
import { axisVector } from './points.ts'

export interface Written {
  points: string[]
  notes: number[]
  fired: string[]
  operations: string[]
}

export interface Load {
  /** All acknowledged writes so far. */
  readonly written: Written
  stop(): Promise<void>
}

export interface LivePlatform extends Awaited<ReturnType<typeof startFlotilla>> {
  home: string
  client: Client
}

/** One target, which gets everything; JSON is YAML. */
export function writeTarget(home: string, url: string): void {
  writeFileSync(join(home, 'targets.yaml'), JSON.stringify({ targets: { witness: { url, retry: 1 } } }))
}

/** `provisioned`: the agent `keeper` is there already. */
export async function startLive(
  home: string,
  { provisioned = false, ...options }: SpawnOptions & { provisioned?: boolean },
): Promise<LivePlatform> {
  const running = await startFlotilla(home, options)
  if (!provisioned) {
    const tier = ['--tier', 'infra-architect']
    const made = await command(home, 'agents', 'provision', '--agent-id', 'keeper', ...tier)
    if (made.code !== 0) throw new Error(made.stderr)
  }
  return { ...running, home, client: clientOf(home, running.addresses) }
}

/** A command on this data directory; its document is the last line of what it prints. */
export async function command(home: string, ...args: string[]) {
  const env = { FLOTILLA_HOME: home, LOG_LEVEL: 'error' }
  // It ends by itself.
  const finished = await spawnFlotilla([...args, '--json'], env, { atEnd() {} }).finished
  const [line = '{}'] = finished.stdout.trim().split('\n').slice(-1)
  return { ...finished, json: JSON.parse(line === '' ? '{}' : line) as Record<string, unknown> }
}

function clientOf(home: string, addresses: Addresses): Client {
  return createClient({
    vectorUrl: addresses.vector_url,
    hubUrl: addresses.hub_url,
    webhookUrl: addresses.webhook_url,
    agentId: 'keeper',
    privateKeyFile: join(home, 'agents', 'keeper', 'ed25519.pem'),
    timeoutMs: 60_000,
  })
}

/** Upserts, notes and events, each kind one after the other, until it is stopped. */
export function startLoad({ client }: LivePlatform): Load {
  const written: Written = { points: [], notes: [], fired: [], operations: [] }
  let going = true
  const repeat = async (work: (n: number) => Promise<void>) => {
    for (let n = 0; going; n++) await work(n)
  }
  const loops = [
    repeat(async (n) => {
      const points = Array.from({ length: 5 }, (_, i) => ({
        id: `p-${n}-${i}`,
        vector: axisVector((n * 5 + i) % 1536),
        payload: { n },
      }))
      const { operation_id } = await client.upsert('posts', points)
      written.points.push(...points.map(({ id }) => id))
      written.operations.push(operation_id)
    }),
    repeat(async (n) => {
      const note = await client.notes.create({ subject: `note ${n}`, body: 'written under load' })
      written.notes.push(note.id)
    }),
    repeat(async (n) => {
      await client.webhooks.fire({ event: 'task.completed', agent: 'keeper', task_id: `t-${n}` })
      written.fired.push(`t-${n}`)
    }),
  ]
  return {
    written,
    async stop() {
      going = false
      await Promise.all(loops)
    },
  }
}

/** A copy of the present state, without later writes. */
export function copyOf({ points, notes, fired, operations }: Written): Written {
  return { points: [...points], notes: [...notes], fired: [...fired], operations: [...operations] }
}
