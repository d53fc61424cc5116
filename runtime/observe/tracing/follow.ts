/** Ends spans with what they follow. */

import { sqlState } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { OpenSpan } from './tracing.ts'

/** Hands on how the work ends, and ends the spans with it. */
export async function followed<T>(spans: readonly OpenSpan[], work: Promise<T>): Promise<T> {
  const result = await followedFault(spans, work)
  for (const span of spans) span.end()
  return result
}

/** As `followed`, where the spans of work that succeeds are ended by others. */
export async function followedFault<T>(spans: readonly OpenSpan[], work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    for (const span of spans) span.end(faultOf(error))
    throw error
  }
}

/** A code; no message, which may hold what a caller sent. */
export function faultOf(error: unknown): string {
  if (error instanceof AppError) return error.code
  return sqlState(error) ?? (error instanceof Error ? error.name : 'error')
}
