/**
 * Translates the faults of both drivers: an engine that is away becomes an AppError, any other fault keeps its
 * SQLSTATE and loses what it quotes.
 */

import { AppError } from '#lib/errors.ts'
import { meansLater } from '#lib/system-faults.ts'
import { sqlState } from './port.ts'

const messageCharsMax = 300

/** A statement's own fault. `code` is the SQLSTATE; the message is for logs, never for callers. */
export class SqlFault extends Error {
  readonly code: string
  readonly constraint: string | undefined

  constructor(code: string, message: string, constraint?: string) {
    super(cutMessage(code, message))
    this.name = 'SqlFault'
    this.code = code
    this.constraint = constraint
  }
}

/** As a server says of a statement that took too long. */
export function waitedTooLong(): SqlFault {
  return new SqlFault('57014', 'the statement waited too long for its turn')
}

export function relationalUnavailable(cause?: unknown): AppError {
  return new AppError('relational_engine_unavailable', 'The relational engine does not answer.', {
    retryAfter: 1,
    cause,
  })
}

/** What an engine's library threw, translated. Anything without a SQLSTATE is a connection that failed. */
export function translateFault(error: unknown): Error {
  if (error instanceof AppError || error instanceof SqlFault) return error
  const { code, message, constraint } = error as { code?: unknown; message?: string; constraint?: string }
  const isSqlState = typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !nodeCodes.has(code)
  if (!isSqlState || meansLater(error) === 'engine') return relationalUnavailable(error)
  return new SqlFault(code, message ?? '', constraint)
}

/** System error codes of five capitals that look like a SQLSTATE. */
const nodeCodes = new Set(['EPIPE', 'EPERM', 'EBUSY', 'EBADF', 'EINTR', 'EAGAIN', 'EPROTO'])

/** Data exceptions (class 22) quote the value that they refuse: that may be a secret, or three megabytes. */
function cutMessage(code: string, message: string): string {
  const quote = message.indexOf('"')
  const text = code.startsWith('22') && quote >= 0 ? `${message.slice(0, quote)}"…"` : message
  return text.length > messageCharsMax ? `${text.slice(0, messageCharsMax)}…` : text
}

/** Whether it comes of a prepared statement whose tables changed under it, or that the server does not know any more. */
export function isOutlived(error: unknown): boolean {
  return ['0A000', '26000'].includes(sqlState(error) ?? '')
}
