/** Shapes that several routes of the main API share, and the form of its answers. */

import { type TSchema, Type } from 'typebox'
import { phraseOf, ruleAndValue } from '#lib/schema-faults.ts'
import type { AnswerForm } from '#runtime/http/send-rows.ts'
import { validationFailed } from '#runtime/http/validation.ts'

export { orNull, role, textField as name, time } from '#operations/shapes.ts'

/** Queries are text: a whole number from 0 on. */
export const wholeNumber = (description: string, example: string) =>
  Type.String({ pattern: '^\\d{1,15}$', rule: 'a whole number, 0 or more', description, examples: [example] })

/** What `wholeNumber` took for a field. Throws AppError `validation_failed`. */
export function numberBetween(min: number, max: number, field: string, text: string): number {
  const number = Number(text)
  if (number >= min && number <= max) return number
  throw validationFailed([
    {
      path: `/${field}`,
      message: ruleAndValue(phraseOf({ type: 'integer', minimum: min, maximum: max }), number),
    },
  ])
}

/** The form of every successful answer of the main API: `{ok: true, data}`. */
export const envelope: AnswerForm = {
  answer: (data) => ({ ok: true, data }),
  /** Its title is that of the data with `Answer` at the end. */
  schemaOf(data: TSchema) {
    const { title } = data as { title?: string }
    if (title === undefined) throw new Error('the data of an answer need a title')
    return Type.Object(
      { ok: Type.Literal(true), data },
      { title: `${title}Answer`, description: 'Done.', additionalProperties: false },
    )
  },
}

/** An object of requests: other fields are faults. */
export const closed = { additionalProperties: false } as const
