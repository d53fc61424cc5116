/** Shapes that several routes of the main API share. */

import { Type } from 'typebox'
import { validationFailed } from '#runtime/http/validation.ts'

export { orNull, role, textField as name, time } from '#operations/shapes.ts'

/** Queries are text: a whole number from 0 on. */
export const wholeNumber = (description: string, example: string) =>
  Type.String({ pattern: '^\\d{1,15}$', description, examples: [example] })

/** What `wholeNumber` took for a field, from 1 to `max`. Throws AppError `validation_failed`. */
export function numberUpTo(max: number, field: string, text: string): number {
  return numberBetween(1, max, field, text)
}

/** Throws AppError `validation_failed`. */
export function numberBetween(min: number, max: number, field: string, text: string): number {
  const number = Number(text)
  if (number >= min && number <= max) return number
  throw validationFailed([{ path: `/${field}`, message: `must be ${min} to ${max}` }])
}
