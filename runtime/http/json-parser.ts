/**
 * The parser of JSON bodies of every service: small ones on the event loop, big ones in a thread, which starts with the first
 * one, and again after it died.
 */

import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { budgets } from '#lib/budgets.ts'
import { AppError, overloaded } from '#lib/errors.ts'
import { isWhole } from '#lib/giving-way.ts'
import type { Closeable } from '#lib/resource.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import { parseJson } from './validation.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** SHA-256 of the body's bytes; null unless the request has an Idempotency-Key and a JSON body. */
    bodyHash: Buffer | null
  }
}

/** Bodies beyond this size never occupy the event loop. */
export const parsedOnLoopBytesMax = 256 * 1024

interface ParsedBody {
  value: unknown
  hash: Uint8Array | null
}

/** `application/json` alone is accepted; keys such as `__proto__` are plain own properties, as JSON.parse gives them. */
export function registerJsonBodies(app: FastifyInstance): void {
  const thread = createBodyThread<ParsedBody>(
    new URL('./json-thread.ts', import.meta.url),
    'json',
    budgets.parsing.jsonWaitingBytes,
  )
  app.addHook('onClose', () => thread.close())
  app.decorateRequest('bodyHash', null)
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const encoding = request.headers['content-encoding'] ?? 'identity'
    if (encoding.toLowerCase() === 'identity') return done(null, payload)
    done(new AppError('unsupported_media_type', 'Send the body as it is: Content-Encoding is not read.'))
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    // Many clients name a type with every request: an empty body is none.
    if (body.length === 0) return done(null, undefined)
    const hashed = request.headers['idempotency-key'] !== undefined
    if (body.length > parsedOnLoopBytesMax) {
      thread.parse([body], hashed).then((parsed) => {
        request.bodyHash = parsed.hash && Buffer.from(parsed.hash)
        done(null, parsed.value)
      }, done)
      return
    }
    let value: unknown
    try {
      value = parseJson(body)
    } catch (error) {
      return done(error as Error)
    }
    if (hashed) request.bodyHash = hash('sha256', body, 'buffer')
    done(null, value)
  })
}

const heapMbMax = 1_536

type Handlers = { parse(blocks: Uint8Array[], ...more: unknown[]): unknown }

export interface BodyThread<T> extends Closeable {
  /** Hands the blocks of a body over (their memory moves away). Throws what the thread threw, or AppError `overloaded`. */
  parse(blocks: readonly Buffer[], ...more: unknown[]): Promise<T>
}

/** `entry` must serve one method: `parse(blocks, ...more)`. At most `waitingBytesMax` of bodies wait for it. */
export function createBodyThread<T>(entry: URL, name: string, waitingBytesMax: number): BodyThread<T> {
  let worker: WorkerClient<Handlers> | undefined
  let waitingBytes = 0

  function running(): WorkerClient<Handlers> {
    if (worker) return worker
    const started = openWorker<Handlers>({ entry, name, heapMbMax }, (cause) => {
      if (worker === started) worker = undefined
      return overloaded('The body could not be read', cause)
    })
    worker = started
    return started
  }

  return {
    async parse(blocks, ...more) {
      const size = blocks.reduce((sum, block) => sum + block.length, 0)
      if (waitingBytes + size > waitingBytesMax) throw overloaded('Too many large bodies are waiting')
      waitingBytes += size
      try {
        const own = blocks.map(ownMemory)
        const moved = own.map(({ buffer }) => buffer)
        return (await running().send('parse', [own, ...more], moved)) as T
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
function ownMemory(block: Buffer): Uint8Array<ArrayBuffer> {
  return isWhole(block) ? new Uint8Array(block.buffer) : new Uint8Array(block)
}
