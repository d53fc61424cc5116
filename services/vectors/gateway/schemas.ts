/** Shapes of the gateway's requests and answers: they validate, serialise and describe. */

import { type TProperties, Type } from 'typebox'
import { collections, vectorDimension } from '#engines/vectors/collections.ts'
import { checkedByHandler } from '#runtime/http/validation.ts'

const closed = { additionalProperties: false }
export const closedObject = <P extends TProperties>(properties: P, options: object = {}) =>
  Type.Object(properties, { ...closed, ...options })

export const limit = Type.Integer({ minimum: 1, maximum: 1_000, default: 10 })

export const collection = Type.String({
  description: `One of ${collections.join(', ')}.`,
  examples: ['knowledgebase'],
})

/** Checked while it is packed: 1536 numbers would fill an answer with faults. */
export const vector = Type.Unsafe<unknown>({
  type: 'array',
  items: { type: 'number' },
  minItems: vectorDimension,
  maxItems: vectorDimension,
  description: `${vectorDimension} numbers within float32; not the zero vector.`,
  ...checkedByHandler,
})

export const pointId = Type.String({
  minLength: 1,
  maxLength: 512,
  pattern: '^[^\\u0000]*$',
  description: 'Any string of 1 to 512 characters without NUL; compared code point by code point.',
  examples: ['STIDX001-5f2d1c'],
})

export const payload = Type.Unsafe<Record<string, unknown>>({
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
})

export const point = closedObject(
  { id: pointId, vector, payload: Type.Optional(payload) },
  { title: 'Point' },
)

export const filter = closedObject(
  {
    must: Type.Array(
      closedObject({
        key: Type.String({
          description: 'A payload key; a dotted one is a path through objects, not through arrays.',
        }),
        match: closedObject({
          value: Type.Unsafe<string | number | boolean>({
            type: ['string', 'number', 'boolean'],
            description: 'Equal by value and type; of an array it means "contains".',
          }),
        }),
      }),
      { maxItems: 128 },
    ),
  },
  { title: 'Filter', examples: [{ must: [{ key: 'status', match: { value: 'active' } }] }] },
)

export const after = Type.Optional(
  Type.String({ description: 'An operation_id: the answer reflects that operation.' }),
)

/** Vectors of answers are plain arrays of float32 values. */
export const answeredVector = Type.Array(Type.Number())

export const acceptedOperation = closedObject(
  {
    operation_id: Type.String(),
    status: Type.Union([Type.Literal('accepted'), Type.Literal('applied')]),
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
    Type.Union([Type.Literal('true'), Type.Literal('false')], {
      description: 'true answers 200 once the vector engine holds it, 202 when ten seconds pass first.',
    }),
  ),
})

/** What every metered operation may answer besides its success. */
export const commonProblems = {
  400: 'The body is not JSON, or the operation id is not of this platform.',
  401: 'No valid gateway key was sent.',
  404: 'The collection or operation does not exist.',
  413: 'The body is too large.',
  415: 'The content type is not application/json.',
  422: 'A field is wrong; errors names it.',
  429: 'Too much at once; retryAfter says how long to wait.',
  503: 'An engine does not answer, or the operation is not applied yet; retryAfter says how long to wait.',
}
