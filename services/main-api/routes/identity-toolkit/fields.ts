/** Reads the bodies of Identity Toolkit's calls, which are open for further fields. */

import { AppError } from '#lib/errors.ts'

export function fieldsOf(body: unknown): Record<string, unknown> {
  return typeof body === 'object' && body !== null && !Array.isArray(body)
    ? (body as Record<string, unknown>)
    : {}
}

/** Throws AppError `identity_refused` with Google's string for a field that is missing, empty or no text. */
export function textIn(body: unknown, name: string, missing: string): string {
  const fields = fieldsOf(body)
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (typeof value === 'string' && value !== '') return value
  throw new AppError('identity_refused', missing)
}
