/** HTTP load over kept-alive connections: latencies in ms of requests sent one after the other by each client. */

import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'undici'

const triesMax = 3

export interface Target {
  origin: string
  path: string
  headers: Record<string, string>
}

export interface Caller {
  /**
   * Sends one POST, reads the whole answer, returns the milliseconds it took; throws on any status but 200 to 202. A 503 is
   * repeated when it says, as clients do, and its time counts.
   */
  post(path: string, body: Buffer, headers: Record<string, string>): Promise<number>
  close(): Promise<void>
}

export function openCaller(origin: string): Caller {
  const client = new Client(origin, { bodyTimeout: 60_000, headersTimeout: 60_000 })
  return {
    async post(path, body, headers) {
      const begun = performance.now()
      for (let tries = 1; ; tries++) {
        const answer = await client.request({
          method: 'POST',
          path,
          body,
          headers: { 'content-type': 'application/json', ...headers },
        })
        const text = await answer.body.text()
        if (answer.statusCode >= 200 && answer.statusCode <= 202) return performance.now() - begun
        if (answer.statusCode !== 503 || tries === triesMax) {
          throw new Error(`${path} answered ${answer.statusCode}: ${text.slice(0, 300)}`)
        }
        await pause(Number(answer.headers['retry-after'] ?? 1) * 1_000)
      }
    },
    close: () => client.close(),
  }
}

/** `clients` callers send `bodies` in turn until `total` requests are done; the latencies in ms of all of them. */
export async function runLoad(
  target: Target,
  bodies: readonly Buffer[],
  clients: number,
  total: number,
): Promise<number[]> {
  const latencies: number[] = []
  let sent = 0
  const work = async () => {
    const caller = openCaller(target.origin)
    try {
      while (sent < total) {
        const body = bodies[sent++ % bodies.length]!
        latencies.push(await caller.post(target.path, body, target.headers))
      }
    } finally {
      await caller.close()
    }
  }
  await Promise.all(Array.from({ length: clients }, work))
  return latencies
}
