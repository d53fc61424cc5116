/** Makes a POST safe to repeat: a request that comes again with its Idempotency-Key gets the first answer again. */

import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { operationOf } from '#services/access/audit/trail/audit.ts'
import { withIdempotency } from '#services/access/idempotency.ts'
import { callerOf } from './caller.ts'

const keyPattern = /^[\x21-\x7e]{1,255}$/

/** For the schema of a route that uses `idempotent`. */
export const idempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({ description: '1 to 255 visible ASCII characters; makes the request safe to repeat.' }),
  ),
})

/** For the problems of a route that uses `idempotent`. */
export const idempotencyProblems = ['idempotency_conflict', 'idempotency_in_progress'] as const

/**
 * Runs `work` once for the key of this caller and operation, and answers what it resolved with (any JSON) and the status
 * that it set. Ids that `work` makes from `seed` are the same however often it runs; without the header it runs with
 * none. `part` is what of the operation the key belongs to, where one route serves several. An answer that was given before has the
 * header Idempotency-Replayed. Throws AppError `validation_failed` for a malformed key, `idempotency_conflict` for another body under the same
 * key, `idempotency_in_progress` while the first request is running.
 */
export async function idempotent<T>(
  { relational, log }: { relational: Relational; log: Logger },
  request: FastifyRequest,
  reply: FastifyReply,
  work: (seed: string | undefined) => Promise<T>,
  part?: string,
): Promise<T> {
  const key = keyOf(request)
  if (key === undefined) return work(undefined)
  const scope = [callerOf(request).uid, operationOf(request), ...(part === undefined ? [] : [part])].join('/')
  const answer = await withIdempotency(
    relational,
    { scope, key, bodyHash: bodyHashOf(request), log },
    async ({ seed }) => {
      const body = JSON.stringify(await work(seed))
      return { statusCode: reply.statusCode, headers: {}, body }
    },
  )
  reply.code(answer.statusCode)
  if (answer.replayed) reply.header('idempotency-replayed', 'true')
  return JSON.parse(answer.body) as T
}

/** The kit's parser hashes every body that comes with a key; a parser of a route's own has to do so, too. */
function bodyHashOf(request: FastifyRequest): Buffer {
  if (request.bodyHash) return request.bodyHash
  if (request.body !== undefined) throw new Error('the body was not hashed by its parser')
  return hash('sha256', '', 'buffer')
}

function keyOf(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && keyPattern.test(key)) return key
  throw validationFailed([
    { path: 'Idempotency-Key', message: 'must have 1 to 255 visible ASCII characters' },
  ])
}
