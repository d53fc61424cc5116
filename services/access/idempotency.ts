/** Makes a POST safe to repeat: a request that comes again with its Idempotency-Key gets the first answer again, at any instance. */

import { createHash, hash, randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { Type } from 'typebox'
import type { Relational } from '#engines/relational/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { operationOf } from '#services/access/audit/trail/audit.ts'
import { callerOf } from './callers/caller.ts'

/** An answer under its key is given again for this long. */
const keptHours = 24
/** A request that has been pending for longer lost its process: it runs again with the same seed. */
const pendingSeconds = 60
const racesMax = 3
/** Pauses between looks at the row of a request that is running. */
const looks = { baseMs: 20, maxMs: 200 } as const

export interface Answer {
  statusCode: number
  body: string
}

interface IdempotentRequest {
  /** Whose key it is and for what: `<caller>/<operation>`. Keys of different scopes never meet. */
  scope: string
  /** The Idempotency-Key header. */
  key: string
  /** SHA-256 of the body; the same key with another body is refused. */
  bodyHash: Buffer
  log: Logger
  /** How long to wait for the answer of a request that is running under the key. Default 0: it is refused at once. */
  waitMs?: number
}

export interface Attempt {
  /** The same in every run under one key: ids made from it (`idOfSeed`) are the same, too. */
  seed: string
  /** Rises with every run under the key, from 1. */
  attempt: number
}

/**
 * Runs `work` once for a key and gives its answer; a repeated request gets that answer again (`replayed`). When work throws,
 * the next request runs with the same seed.
 * Throws AppError `idempotency_conflict` for another body, `idempotency_in_progress` while the first is running, and that for
 * longer than `waitMs`.
 */
export async function withIdempotency(
  relational: Relational,
  request: IdempotentRequest,
  work: (attempt: Attempt) => Promise<Answer>,
): Promise<Answer & { replayed: boolean }> {
  const { scope, key, log } = request
  const begun = await begin(relational, request)
  if ('statusCode' in begun) return { ...begun, replayed: true }
  const run = [scope, key, begun.attempt]
  /** The work is done: a database that is away now must not change its answer. The row then stays pending for a while. */
  async function settle(statement: string, params: (string | number)[]): Promise<void> {
    try {
      await relational.query(statement, params)
    } catch (error) {
      log.warn({ scope, reason: describeError(error) }, 'idempotency.not-settled')
    }
  }
  let answer: Answer
  try {
    answer = await work(begun)
  } catch (error) {
    await settle(reopening, run)
    throw error
  }
  await settle(storing, [...run, answer.statusCode, answer.body])
  return { ...answer, replayed: false }
}

/** Lets the next request run at once; the seed stays. */
const reopening = `update platform.idempotency_keys set started_at = to_timestamp(0)
  where scope = $1 and key = $2 and attempt = $3 and status_code is null`

/** Keeps the answer, and deletes a few expired rows, so that nothing else has to. */
const storing = `with expired as (
    delete from platform.idempotency_keys where (scope, key) in (
      select scope, key from platform.idempotency_keys
      where created_at < now() - make_interval(hours => ${keptHours + 1}) order by created_at limit 10))
  update platform.idempotency_keys set status_code = $4, body = $5
  where scope = $1 and key = $2 and attempt = $3`

/** A UUID (version 8) that depends on nothing but the seed and what it is for. */
export function idOfSeed(seed: string, purpose: string): string {
  const bytes = createHash('sha256').update(`${seed}\0${purpose}`).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/** The attempt that this request may make, or the answer of an earlier one. */
async function begin(relational: Relational, request: IdempotentRequest): Promise<Attempt | Answer> {
  const until = performance.now() + (request.waitMs ?? 0)
  let mayClaim = true
  let races = 0
  for (let look = 0; ; look++) {
    const attempt = mayClaim ? await claim(relational, request) : undefined
    if (attempt) return attempt
    const row = await readRow(relational, request)
    if (row && !Buffer.from(row.body_hash).equals(request.bodyHash)) {
      throw new AppError(
        'idempotency_conflict',
        'This Idempotency-Key was used with another body; use a new key.',
      )
    }
    if (row && row.status_code !== null) return { statusCode: row.status_code, body: row.body ?? '' }
    // The work of the first may have thrown meanwhile.
    mayClaim = !row || row.is_lost
    if (mayClaim && ++races < racesMax) continue
    if (performance.now() >= until) break
    await sleep(looks.baseMs + backoffMs(look, looks))
  }
  throw new AppError(
    'idempotency_in_progress',
    'The first request with this Idempotency-Key is still running; repeat it in a moment.',
    { retryAfter: 1 },
  )
}

/** One statement decides among all instances: a new key, an expired one, or one whose process is gone. */
async function claim(relational: Relational, request: IdempotentRequest): Promise<Attempt | undefined> {
  const { rows } = await relational.query<Attempt>(
    `insert into platform.idempotency_keys as known (scope, key, body_hash, seed) values ($1, $2, $3::bytea, $4)
     on conflict (scope, key) do update set
       body_hash = excluded.body_hash,
       seed = case when known.created_at < now() - make_interval(hours => ${keptHours}) then excluded.seed else known.seed end,
       attempt = known.attempt + 1,
       created_at = case when known.created_at < now() - make_interval(hours => ${keptHours}) then now() else known.created_at end,
       started_at = now(), status_code = null, headers = null, body = null
     where known.created_at < now() - make_interval(hours => ${keptHours})
        or (known.status_code is null and known.body_hash = excluded.body_hash
            and known.started_at < now() - make_interval(secs => ${pendingSeconds}))
     returning seed, attempt`,
    [request.scope, request.key, request.bodyHash, randomBytes(16).toString('hex')],
  )
  return rows[0]
}

interface Row {
  body_hash: Buffer
  status_code: number | null
  body: string | null
  /** Pending, and its process is gone, or its work threw. */
  is_lost: boolean
}

async function readRow(relational: Relational, request: IdempotentRequest): Promise<Row | undefined> {
  const { rows } = await relational.query<Row>(
    `select body_hash, status_code, body,
       status_code is null and started_at < now() - make_interval(secs => ${pendingSeconds}) as is_lost
     from platform.idempotency_keys where scope = $1 and key = $2`,
    [request.scope, request.key],
  )
  return rows[0]
}

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
 * none. `part` is what of the operation the key belongs to, where one route serves several; `waitMs` how long a request waits for
 * the first one under its key. An answer that was given before has the
 * header Idempotency-Replayed. Throws AppError `validation_failed` for a malformed key, `idempotency_conflict` for another body under the same
 * key, `idempotency_in_progress` while the first request is running for longer than that.
 */
export async function idempotent<T>(
  { relational, log }: { relational: Relational; log: Logger },
  request: FastifyRequest,
  reply: FastifyReply,
  work: (seed: string | undefined) => Promise<T>,
  { part, waitMs }: { part?: string; waitMs?: number } = {},
): Promise<T> {
  const key = keyOf(request)
  if (key === undefined) return work(undefined)
  const scope = [callerOf(request).uid, operationOf(request), ...(part === undefined ? [] : [part])].join('/')
  const answer = await withIdempotency(
    relational,
    { scope, key, bodyHash: bodyHashOf(request), log, ...(waitMs === undefined ? {} : { waitMs }) },
    async ({ seed }) => {
      const body = JSON.stringify(await work(seed))
      return { statusCode: reply.statusCode, body }
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
