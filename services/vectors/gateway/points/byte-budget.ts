/** Limits the memory that big uploads take at the same time. */

import type { IncomingMessage } from 'node:http'
import { AppError } from '#lib/errors.ts'

export const upsertBodyBytesMax = 64 * 1024 * 1024
/** Bytes of upserts that are received or parsed at once. */
const budgetBytes = 8 * upsertBodyBytesMax
/** Smaller bodies are limited by the number of connections. */
const smallBytes = 256 * 1024

export interface ByteBudget {
  /**
   * Reserves bytes for the body that this request announces, until the request is closed. Throws AppError `overloaded`
   * when too many are reserved.
   */
  take(request: IncomingMessage): void
}

export function createByteBudget(): ByteBudget {
  let taken = 0
  return {
    take(request) {
      const bytes = announced(request)
      if (bytes <= smallBytes) return
      if (taken + bytes > budgetBytes) {
        throw new AppError('overloaded', 'Too many large bodies are being received; try again in a second.', {
          retryAfter: 1,
        })
      }
      taken += bytes
      request.once('close', () => {
        taken -= bytes
      })
    },
  }
}

/** A body of unknown length may become as large as any. */
function announced(request: IncomingMessage): number {
  const length = request.headers['content-length']
  if (length === undefined) return request.headers['transfer-encoding'] === undefined ? 0 : upsertBodyBytesMax
  return Math.min(Number(length), upsertBodyBytesMax)
}
