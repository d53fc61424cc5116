/**
 * Clients that write, repeat and read over both gateways at the same time, on the same keys, and record the
 * answers.
 */

import { type AcceptedOperation, type Client, createClient, ProblemError } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { createRandom } from './vectors.ts'
import { type Accepted, type History, payloadOf, vectorOf, type Write } from './whole-history.ts'
import type { Place } from './whole-processes.ts'
import { readAfter } from './whole-reads.ts'

export const collections = ['posts', 'knowledgebase'] as const
const keysOfCollection = 24
const keysOfRequestMax = 5
/** Most of them wait while something is away. */
const writersCount = 6
const readersCount = 8
const pauseMs = [50, 250] as const
const pauseAfterFaultMs = 150
/** Longer than an `after` or a write may wait. */
const answerMsMax = 12_000
/** Operations that reads may name. */
const recentMax = 30

export interface WorkloadParts {
  gateways: readonly Place[]
  agents: readonly { agentId: string; privateKeyFile: string }[]
  seed: number
  history: History
}

/** One gateway, as one agent uses it. */
interface Line {
  gateway: Place
  client: Client
}

/** Writes and reads until it is stopped. */
export function startWorkload(parts: WorkloadParts): { stop(): Promise<void> } {
  let on = true
  let versions = 0
  const newVersion = () => ++versions
  const recent: Accepted[] = []
  // One for each agent and gateway: handshakes that wait for their verification are few.
  const lines = parts.agents.map((agent) =>
    parts.gateways.map((gateway) => ({
      gateway,
      client: createClient({
        ...agent,
        vectorUrl: gateway.vectorUrl,
        attemptsMax: 1,
        timeoutMs: answerMsMax,
      }),
    })),
  )
  const clients = Array.from({ length: writersCount + readersCount }, async (_, n) => {
    const worker = createWorker(parts, lines[n % lines.length] as Line[], n, newVersion, recent)
    const step = n < writersCount ? worker.write : worker.read
    while (on) {
      await step()
      await worker.pause()
    }
  })
  return {
    async stop() {
      on = false
      await Promise.all(clients)
      await Promise.all(lines.flat().map(({ client }) => client.close()))
    },
  }
}

function createWorker(
  { seed, history }: WorkloadParts,
  lines: readonly Line[],
  n: number,
  newVersion: () => number,
  recent: Accepted[],
) {
  const random = createRandom(seed * 1_000 + n)
  const upTo = (count: number) => Math.floor(random() * count)
  const chance = (share: number) => random() < share
  const anyLine = () => lines[upTo(lines.length)] as Line

  /** Sends one try and records its result. */
  async function attempt(
    { gateway, client }: Line,
    what: Pick<Write, 'version' | 'kind'> & { collection: string; ids: string[] },
    send: (client: Client) => Promise<AcceptedOperation>,
  ): Promise<Write> {
    const write: Write = {
      version: what.version,
      kind: what.kind,
      keys: what.ids.map((id) => `${what.collection}/${id}`),
      gateway: gateway.incarnation(),
      begunAt: performance.now(),
      endedAt: 0,
      outcome: 'unanswered',
    }
    history.writes.push(write)
    try {
      const answer = await send(client)
      write.outcome = 'acknowledged'
      write.operation = answer.operation_id
      recent.push({ write, collection: what.collection, ids: what.ids, answer })
      if (recent.length > recentMax) recent.shift()
    } catch (error) {
      write.outcome = outcomeOf(error, history)
    }
    write.endedAt = performance.now()
    if (write.outcome !== 'acknowledged') await sleep(pauseAfterFaultMs)
    return write
  }

  async function write(): Promise<void> {
    const collection = collections[upTo(collections.length)] as string
    const first = upTo(keysOfCollection)
    const ids = Array.from(
      { length: 1 + upTo(keysOfRequestMax) },
      (_, i) => `k${(first + i * 5) % keysOfCollection}`,
    )
    const version = newVersion()
    const kind = chance(0.25) ? 'delete' : 'upsert'
    const what = { version, kind, collection, ids } as const
    const idempotencyKey = chance(0.4) ? `w${n}-${version}` : undefined
    const points = ids.map((id) => ({ id, vector: vectorOf(version), payload: payloadOf(version) }))
    const send = (wait: boolean) => (client: Client) =>
      kind === 'delete'
        ? client.delete(collection, ids, { wait })
        : client.upsert(collection, points, { wait, ...(idempotencyKey ? { idempotencyKey } : {}) })
    const done = await attempt(anyLine(), what, send(chance(0.15)))
    // A client repeats calls without an answer, and now and then answered ones.
    if (chance(done.outcome === 'acknowledged' ? 0.1 : 0.6)) await attempt(anyLine(), what, send(false))
  }

  return {
    write,
    async read() {
      const named = recent[upTo(recent.length)]
      if (!named) return
      const fault = await readAfter(anyLine().client, named, history, random)
      if (fault === undefined) return
      outcomeOf(fault, history)
      await sleep(pauseAfterFaultMs)
    },
    pause: () => sleep(pauseMs[0] + upTo(pauseMs[1] - pauseMs[0])),
  }
}

/** Failures that faults explain: engines away, and a request that is still running under its Idempotency-Key. */
function outcomeOf(error: unknown, history: History): Write['outcome'] {
  if (!(error instanceof ProblemError)) throw error
  const { status, code } = error
  history.faults[code] = (history.faults[code] ?? 0) + 1
  if (status === 0) return 'unanswered'
  if (status === 503) return 'unavailable'
  if (status === 429 || code === 'idempotency_in_progress') return 'refused'
  history.surprises.push(`${status} ${error.message}`)
  return 'unanswered'
}
