/** Parses big bodies in a thread, which starts with the first one, and again after it died. */

import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'

const heapMbMax = 1_536

type Handlers = { parse(bytes: Uint8Array, ...more: unknown[]): unknown }

export interface BodyThread<T> extends Closeable {
  /** Hands the body over (its memory moves away). Throws what the thread threw, or AppError `overloaded`. */
  parse(body: Buffer, ...more: unknown[]): Promise<T>
}

/** `entry` must serve one method: `parse(bytes, ...more)`. At most `waitingBytesMax` of bodies wait for it. */
export function createBodyThread<T>(entry: URL, name: string, waitingBytesMax: number): BodyThread<T> {
  let worker: WorkerClient<Handlers> | undefined
  let waitingBytes = 0

  function running(): WorkerClient<Handlers> {
    if (worker) return worker
    const started = openWorker<Handlers>({ entry, name, heapMbMax }, (cause) => {
      if (worker === started) worker = undefined
      return new AppError('overloaded', 'The body could not be read; try again in a second.', {
        retryAfter: 1,
        cause,
      })
    })
    worker = started
    return started
  }

  return {
    async parse(body, ...more) {
      if (waitingBytes + body.length > waitingBytesMax) {
        throw new AppError('overloaded', 'Too many large bodies are waiting; try again in a second.', {
          retryAfter: 1,
        })
      }
      const size = body.length
      waitingBytes += size
      try {
        const own = ownMemory(body)
        return (await running().send('parse', [own, ...more], [own.buffer])) as T
      } finally {
        waitingBytes -= size
      }
    },
    async close() {
      await worker?.terminate()
    },
  }
}

/** Small buffers share a pool that must not be moved away. */
function ownMemory(body: Buffer): Uint8Array<ArrayBuffer> {
  const whole = body.byteOffset === 0 && body.buffer.byteLength === body.byteLength
  return whole && body.buffer instanceof ArrayBuffer ? new Uint8Array(body.buffer) : new Uint8Array(body)
}
