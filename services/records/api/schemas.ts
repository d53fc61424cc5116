/** Shapes that the routes of notes and goals share. */

import { type TProperties, type TSchema, Type } from 'typebox'
import { withoutNul } from '#runtime/http/validation.ts'
import { priorities } from '#services/records/store/kind.ts'

export const closedObject = <P extends TProperties>(properties: P, options: object = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options })

/** A line of text. */
export const line = (description: string, example: string) =>
  Type.String({ ...withoutNul, minLength: 1, maxLength: 512, description, examples: [example] })

/** A text of any length that the body may have. */
export const text = (description: string, example: string) =>
  Type.String({ ...withoutNul, description, examples: [example] })

export const priority = Type.Enum([...priorities], {
  type: 'string',
  title: 'Priority',
  description: '`normal` where nothing is said.',
})

export const uuid = Type.String({
  pattern: '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$',
  rule: 'a UUID such as 0190b8a2-7f6e-7c3a-9d51-0f2f6f0f9a11',
  description: 'A UUID.',
})

export const time = Type.String({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] })
export const author = Type.String({ description: 'The agent id of its author, or the uid of a person.' })

export const authorFilter = Type.Optional(
  Type.String({
    ...withoutNul,
    minLength: 1,
    maxLength: 128,
    description: 'An agent id, or the uid of a person.',
  }),
)

export const idParams = closedObject({
  id: Type.String({ description: 'Its `id`, a whole number.', maxLength: 32, examples: ['1'] }),
})

export const changeHeaders = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      description: 'The `ETag` of the version that was read; with another one by now the change is refused.',
    }),
  ),
})

/** The schema of a list; its title is the plural of its items' title. */
export function listOf(record: TSchema, title: string): TSchema {
  return Type.Array(record, { title, description: 'The newest first.' })
}
