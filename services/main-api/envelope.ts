/** The form of every successful answer of the main API: `{ok: true, data}`. */

import { type TSchema, Type } from 'typebox'

export interface Answer<T> {
  ok: true
  data: T
}

export function answer<T>(data: T): Answer<T> {
  return { ok: true, data }
}

/** The schema of an answer that holds `data`; its title is that of the data with `Answer` at the end. */
export function enveloped<S extends TSchema>(data: S) {
  const { title } = data as { title?: string }
  if (title === undefined) throw new Error('the data of an answer need a title')
  return Type.Object(
    { ok: Type.Literal(true), data },
    { title: `${title}Answer`, description: 'Done.', additionalProperties: false },
  )
}

/** An object of requests: other fields are faults. */
export const closed = { additionalProperties: false } as const
