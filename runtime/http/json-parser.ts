/** The parser of JSON bodies of every service: small ones on the event loop, big ones in a thread of their own. */

import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { budgets } from '#lib/budgets.ts'
import { AppError } from '#lib/errors.ts'
import { createBodyThread } from './body-thread.ts'
import { parseJson } from './json-body.ts'

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
      thread.parse(body, hashed).then((parsed) => {
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
