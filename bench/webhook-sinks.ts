/** Four receivers of webhooks in one process: they answer well or badly, as a round asks, and record the times. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serveForked, sharedNow } from './forked.ts'

const sinkCount = 4

export interface Round {
  /** Sequences divisible by this fail at their first attempt; 0: none. */
  failEvery: number
  /** This sink never answers; null: all do. */
  hanging: number | null
  /** Bodies hold the time of publishing. */
  timed: boolean
}

export interface SinkReport {
  /** First successes. */
  delivered: number
  /** Delivered for the first time behind a later sequence. */
  late: number
  firstAt: number
  lastAt: number
  /** ms from publishing to arrival, of the first successes. */
  latencies: number[]
  /** Headers of one request as they came, for the floor to send: names and values in turn. */
  rawHeaders: string[]
}

interface State extends SinkReport {
  seen: Set<number>
  highest: number
}

let round: Round = { failEvery: 0, hanging: null, timed: false }
let states = Array.from({ length: sinkCount }, newState)
let reached: { counts: (number | null)[]; resolve(): void } | undefined

function newState(): State {
  const seen = new Set<number>()
  return { delivered: 0, late: 0, firstAt: 0, lastAt: 0, latencies: [], rawHeaders: [], seen, highest: -1 }
}

const servers = states.map((_, sink) => createServer((request, response) => take(sink, request, response)))

function take(sink: number, request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
  })
  request.on('end', () => {
    if (round.hanging === sink) return
    const sequence = Number(request.headers['x-sequence'])
    const failing = round.failEvery > 0 && sequence % round.failEvery === 0
    const fails = failing && request.headers['x-attempt'] === '1'
    if (!fails) note(states[sink]!, sequence, request, chunks)
    response.writeHead(fails ? 500 : 204).end()
    check()
  })
}

function note(state: State, sequence: number, request: IncomingMessage, chunks: Buffer[]): void {
  if (state.seen.has(sequence)) return
  const at = sharedNow()
  if (state.delivered === 0) {
    state.firstAt = at
    state.rawHeaders = request.rawHeaders
  }
  state.seen.add(sequence)
  state.delivered += 1
  state.lastAt = at
  if (sequence < state.highest) state.late += 1
  state.highest = Math.max(state.highest, sequence)
  if (!round.timed) return
  const { result } = JSON.parse(Buffer.concat(chunks).toString()) as { result: { at: number } }
  state.latencies.push(at - result.at)
}

function check(): void {
  if (!reached?.counts.every((count, sink) => count === null || states[sink]!.delivered >= count)) return
  reached.resolve()
  reached = undefined
}

const handlers = {
  async urls(_: null): Promise<string[]> {
    await Promise.all(
      servers.map(
        (server) =>
          server.listening || new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)),
      ),
    )
    return servers.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  },
  /** Drops the received events and answers from now on as `next` says. */
  begin(next: Round): void {
    round = next
    states = states.map(newState)
  },
  /** Resolves when every sink has this many first successes; null waits for none. */
  until(counts: (number | null)[]): Promise<void> {
    return new Promise((resolve) => {
      reached = { counts, resolve }
      check()
    })
  },
  report(_: null): SinkReport[] {
    return states.map(({ seen, highest, ...report }) => report)
  },
}

export type SinkCalls = typeof handlers

serveForked(handlers, async () => {
  for (const server of servers) server.closeAllConnections()
})
