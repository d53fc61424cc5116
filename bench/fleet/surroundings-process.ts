/** The surroundings of the bench `fleet`: webhook receivers that check their events, and agents that get runs. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type NodeServer, openNodeServer } from '#services/runs/reference-node/node-server.ts'
import type { NodeAgent } from '#services/runs/reference-node/roster.ts'
import { serveForked, sharedNow } from '../forked.ts'
import { lastWords, targetNames, workerName } from './mix.ts'

/** Every fiftieth sequence fails at its first attempt at the first target. */
const failEvery = 50

interface Receiver {
  /** Sequence → how often it came and was taken. */
  taken: Map<number, number>
  highest: number
  late: number
  gaps: number
  failed: number
  /** Idempotency key → how many different sequences had it. */
  keys: Map<string, number>
  /** ms from firing to arrival. */
  delays: number[]
}

const receivers = new Map<string, Receiver>(
  targetNames.map((name) => [
    name,
    { taken: new Map(), highest: -1, late: 0, gaps: 0, failed: 0, keys: new Map(), delays: [] },
  ]),
)

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => take(request, response, Buffer.concat(chunks).toString()))
})

function take(request: IncomingMessage, response: ServerResponse, body: string): void {
  const name = (request.url ?? '').slice(1)
  const receiver = receivers.get(name)
  if (!receiver) return void response.writeHead(404).end()
  const sequence = Number(request.headers['x-sequence'])
  if (name === 'ledger' && sequence % failEvery === 0 && request.headers['x-attempt'] === '1') {
    receiver.failed += 1
    return void response.writeHead(503).end()
  }
  note(receiver, sequence, request, body)
  response.writeHead(204).end()
}

function note(receiver: Receiver, sequence: number, { headers }: IncomingMessage, body: string): void {
  const before = receiver.taken.get(sequence) ?? 0
  receiver.taken.set(sequence, before + 1)
  if (before > 0) return
  if (sequence < receiver.highest) receiver.late += 1
  const previous = headers['x-previous-sequence']
  if (previous !== undefined && receiver.highest >= 0 && Number(previous) !== receiver.highest) {
    receiver.gaps += 1
  }
  receiver.highest = Math.max(receiver.highest, sequence)
  const key = String(headers['x-idempotency-key'])
  receiver.keys.set(key, (receiver.keys.get(key) ?? 0) + 1)
  const { result } = JSON.parse(body) as { result?: { at?: number } }
  if (typeof result?.at === 'number') receiver.delays.push(sharedNow() - result.at)
}

const worker: NodeAgent = {
  description: 'Says two things.',
  async *answer() {
    yield { text: 'It is looked at.' }
    await pause(20)
    yield { text: lastWords }
  },
}
/** The orchestrator gets a report of each run, as everywhere. */
const axon: NodeAgent = {
  description: 'Takes reports.',
  async *answer() {
    yield { text: 'Taken.' }
  },
}
let nodes: NodeServer | undefined

export interface Delivered {
  taken: number
  repeated: number
  late: number
  gaps: number
  /** First attempts that were refused on purpose. */
  failed: number
  delays: number[]
}

const handlers = {
  async open(_: null): Promise<{ hookUrl: string; nodeUrl: string }> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const agents = new Map([
      [workerName, worker],
      ['axon', axon],
    ])
    nodes = await openNodeServer({ agents, host: '127.0.0.1', port: 0, token: undefined, onFault() {} })
    return { hookUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, nodeUrl: nodes.url }
  },
  delivered: (_: null): Record<string, Delivered> =>
    Object.fromEntries(
      [...receivers].map(([name, { taken, late, gaps, failed, delays }]) => {
        const repeated = [...taken.values()].filter((count) => count > 1).length
        return [name, { taken: taken.size, repeated, late, gaps, failed, delays }]
      }),
    ),
  /** Fired events that did not arrive; runs whose end was not reported exactly once to those who get every event. */
  missing({ runs, fired }: { runs: string[]; fired: Record<string, number[]> }) {
    const undelivered = Object.entries(fired).flatMap(([target, sequences]) =>
      sequences.filter((sequence) => !receivers.get(target)?.taken.has(sequence)),
    )
    const all = [receivers.get('ledger')!, receivers.get('dashboard')!]
    const ends = all.map(({ keys }) => {
      const counts = new Map<string, number>()
      for (const [key, count] of keys) {
        const run = runs.length > 0 ? /run_[0-9a-z]+/i.exec(key)?.[0] : undefined
        if (run) counts.set(run, (counts.get(run) ?? 0) + count)
      }
      return counts
    })
    const notOnce = runs.filter((run) => ends.some((counts) => counts.get(run) !== 1))
    return {
      fired: Object.values(fired).reduce((sum, sequences) => sum + sequences.length, 0),
      undelivered: undelivered.length,
      runs: runs.length,
      notOnce: notOnce.length,
      ...(notOnce[0] === undefined ? {} : { first: notOnce[0] }),
    }
  },
}

export type SurroundingsCalls = typeof handlers

serveForked(handlers, async () => {
  server.closeAllConnections()
  await nodes?.close()
})
