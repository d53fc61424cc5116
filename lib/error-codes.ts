/**
 * The closed list of error codes: the status, title, meaning and remedy of each. Faults, API descriptions and docs/errors.md
 * are all made from it.
 */

import type { ErrorEntry } from './error-codes/entry.ts'
import { requestCodes } from './error-codes/requests.ts'
import { runCodes } from './error-codes/runs.ts'
import { serverCodes } from './error-codes/server.ts'

export type { ErrorEntry } from './error-codes/entry.ts'

/** The codes are part of the public interface: never rename one. Status 500: only operators see it, in a log or command. */
const catalog = { ...requestCodes, ...runCodes, ...serverCodes } as const

export type ErrorCode = keyof typeof catalog

export const errorCodes: Readonly<Record<ErrorCode, ErrorEntry>> = catalog

/** True for codes that callers of an interface may be answered: what else has status 500 is answered `internal_error`. */
export function isAnswered(code: ErrorCode): boolean {
  return errorCodes[code].status !== 500 || code === 'internal_error'
}
