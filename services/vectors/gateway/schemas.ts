/** Shapes of the gateway's requests and answers: they validate, serialise and describe. */

import { type Static, type TProperties, type TSchema, Type } from 'typebox'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import { withoutNul } from '#runtime/http/validation.ts'
import { textCodePointsMax } from '../accept/points.ts'

export const closedObject = <P extends TProperties>(properties: P, options: object = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options })

/** Clients that write every field send null for what they leave out. Described as the schema alone. */
export function absentOr<S extends TSchema & { type: string }>(schema: S) {
  const orNull = { ...schema, type: [schema.type, 'null'], ...shownAs(schema) }
  return Type.Optional(Type.Unsafe<Static<S> | null>(orNull))
}

export const limit = Type.Integer({ minimum: 1, maximum: 1_000, default: 10, examples: [5] })

/** Another name is 404 `collection_not_found`, from the handler. */
export const collection = Type.String(
  shownAs(
    Type.String({
      title: 'Collection',
      description: 'Name of a collection: one of the four of the platform, or one of your own.',
      examples: ['knowledgebase'],
    }),
  ),
)

/** Checked while it is packed: 1536 numbers would fill an answer with faults. */
export const vector = Type.Unsafe<unknown>(
  shownAs(
    Type.Array(Type.Number(), {
      minItems: vectorDimension,
      maxItems: vectorDimension,
      title: 'Vector',
      description: `${vectorDimension} numbers within float32; not the zero vector.`,
    }),
  ),
)

export const pointId = Type.String({
  minLength: 1,
  maxLength: 512,
  ...withoutNul,
  description: 'Any string of 1 to 512 characters without NUL; compared code point by code point.',
  examples: ['STIDX001-5f2d1c'],
})

/** Given back as it was sent, whatever its keys are: nothing goes through it. */
export const payload = Type.Unsafe<Record<string, unknown>>(
  shownAs(
    Type.Object(
      {},
      {
        additionalProperties: true,
        title: 'Payload',
        description: 'Any JSON object of up to 64 KiB; comes back equal.',
        examples: [
          {
            title: 'Deploying the courier',
            collection: 'knowledgebase',
            status: 'active',
            tags: ['runbook', 'webhooks'],
            mind_path: 'runbooks/courier.md',
            updated_at: '2026-01-31T12:00:00.000Z',
          },
        ],
      },
    ),
  ),
)

/** Checked by the handler, which knows whether there is a vector, too. */
export const text = Type.Unsafe<unknown>(
  shownAs(
    Type.String({
      minLength: 1,
      maxLength: textCodePointsMax,
      description: "Instead of a vector: the platform's embedder makes one of it.",
      examples: ['The courier runs on the second host.'],
    }),
  ),
)

/** Checked while points are packed. */
const expiresAt = Type.Unsafe<unknown>(
  shownAs(
    Type.String({
      format: 'date-time',
      description:
        'From this time on no read shows the point, and the platform deletes it. Left out: it stays.',
      examples: ['2027-01-31T12:00:00Z'],
    }),
  ),
)

/** How pages of points are ordered. */
export const orderBy = closedObject(
  {
    key: Type.Literal('updated_at', { description: 'The one key that points can be ordered by.' }),
    direction: Type.Optional(Type.Enum(['asc', 'desc'], { type: 'string', default: 'asc' })),
  },
  {
    title: 'OrderBy',
    description:
      'By the time in the payload, an ISO 8601 text; points without one come last. Default: by id. `next_offset` is ' +
      'then a place in this order.',
  },
)

/** As answers show it. */
export const answeredExpiry = Type.Optional(
  Type.String({ format: 'date-time', description: 'When the point expires; left out where it stays.' }),
)

export const point = closedObject(
  {
    id: pointId,
    vector: Type.Optional(vector),
    text: Type.Optional(text),
    payload: Type.Optional(payload),
    expires_at: Type.Optional(expiresAt),
  },
  {
    title: 'Point',
    description: 'A point to write, with a vector or with a text, which is kept as `payload.text`.',
  },
)

export const after = Type.Optional(
  Type.String({ description: 'An operation_id: the answer reflects that operation.' }),
)

/** Vectors of answers are plain arrays of float32 values. */
export const answeredVector = Type.Array(Type.Number())

export const acceptedOperation = closedObject(
  {
    operation_id: Type.String(),
    status: Type.Enum(['accepted', 'applied'], { type: 'string' }),
    collection: Type.String(),
    points: Type.Integer(),
  },
  {
    title: 'AcceptedOperation',
    description: 'In the log; with status applied also in the vector engine.',
    examples: [{ operation_id: 'AZ8…', status: 'accepted', collection: 'knowledgebase', points: 1 }],
  },
)

export const waitQuery = closedObject({
  wait: Type.Optional(
    Type.Enum(['true', 'false'], {
      type: 'string',
      description: 'true answers 200 once the vector engine holds it, 202 when ten seconds pass first.',
    }),
  ),
})

/** Problems of reads that take `after`. */
export const afterProblems = [
  'invalid_operation_id',
  'operation_not_found',
  'operation_failed',
  'not_yet_applied',
  'log_unavailable',
] as const

/** Problems of reads of a collection. */
export const readProblems = ['collection_not_found', 'vector_engine_unavailable', ...afterProblems] as const

/** Problems of upsert and delete. */
export const writeProblems = [
  'forbidden',
  'reserved_id',
  'collection_not_found',
  'backlog_full',
  'log_unavailable',
  { code: 'operation_failed', status: 502 },
] as const

/** What all searches and pages say of their rows, with its defaults. */
export function rowsOf(given: { limit?: number; with_payload?: boolean; with_vector?: boolean }) {
  const { limit = 10, with_payload: withPayload = true, with_vector: withVector = false } = given
  return { limit, withPayload, withVector }
}

/** The expiry as answers show it: nothing for a point that stays. */
export function expiryOf({ expiresAt }: { expiresAt?: number }): { expires_at?: string } {
  return expiresAt === undefined ? {} : { expires_at: new Date(expiresAt).toISOString() }
}

/** A point or a hit as answers show it: the vector as a plain array, the expiry as a text. */
export function answeredPoint<P extends { vector?: Float32Array; expiresAt?: number }>(point: P) {
  const vector = point.vector && { vector: Array.from(point.vector) }
  const shown: unknown = { ...point, ...vector, ...expiryOf(point) }
  return shown as Omit<P, 'vector' | 'expiresAt'> & { vector?: number[]; expires_at?: string }
}
