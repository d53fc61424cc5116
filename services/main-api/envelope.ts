/** The form of every successful answer of the main API: `{ok: true, data}`. */

import { type TSchema, Type } from 'typebox'
import type { AnswerForm } from '#runtime/http/send-rows.ts'

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
