/** A thread of its own for the client that writes: sending 18 MB bodies must not delay the clock of the one that searches. */

import { isMainThread } from 'node:worker_threads'
import { AppError } from '#lib/errors.ts'
import { openWorker, ownData, serveWorker } from '#lib/worker-rpc.ts'
import { openCaller } from './load.ts'
import { createPointSource } from './points.ts'

interface WritingTarget {
  origin: string
  path: string
  headers: Record<string, string>
  collection: string
  points: number
}

const handlers = {
  /** Sends one upsert after the other until `stop`; resolves with how many were applied. */
  async run(): Promise<number> {
    const target = ownData<WritingTarget>()
    const source = createPointSource(2)
    const points = Array.from({ length: target.points }, (_, i) => source.point(`written-${i}`))
    const body = Buffer.from(JSON.stringify({ collection: target.collection, points }))
    const caller = openCaller(target.origin)
    let upserts = 0
    for (; !stopped; upserts++) await caller.post(target.path, body, target.headers)
    await caller.close()
    return upserts
  },
  stop(): void {
    stopped = true
  },
}

let stopped = false

if (!isMainThread) serveWorker(handlers)

/** Starts the client; `stop` resolves with the number of its upserts. */
export function startWritingClient(target: WritingTarget): { stop(): Promise<number> } {
  const worker = openWorker<typeof handlers>(
    { entry: new URL(import.meta.url), name: 'writing client', data: target },
    (cause) => new AppError('internal_error', 'The writing client ended.', { cause }),
  )
  const run = worker.call.run()
  // Heard at the stop.
  run.catch(() => undefined)
  return {
    async stop() {
      await worker.call.stop()
      const upserts = await run
      await worker.terminate()
      return upserts
    },
  }
}
