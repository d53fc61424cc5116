/** What the doctor reports of one thing that it checked. */

import { AppError, describeError } from '#lib/errors.ts'

export interface Check {
  check: string
  status: 'ok' | 'warn' | 'fail'
  found: string
  /** What to do; absent when all is well. */
  advice?: string
}

export function failedCheck(check: string, error: unknown, advice: string): Check {
  return { check, status: 'fail', found: reasonOf(error), advice }
}

/** Without the name of the class where the message is meant for operators. */
function reasonOf(error: unknown): string {
  return error instanceof AppError ? error.message : describeError(error)
}
