/** Pages of a list: their parameters, cursors, the header that names the next page, and rows that are too many for one piece of memory. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { pageBytesMax } from './answers.ts'
import { shownAs } from './api/facts.ts'
import { validationFailed } from './validation.ts'

const limitMax = 1_000
const limitDefault = 100
const cursorRule = 'the cursor of a page, from the `Link` of the page before'

/** Query parameters of lists; numbers are texts there. */
export const page = {
  limit: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      pattern: '^([1-9]\\d{0,2}|1000)$',
      rule: 'a whole number from 1 to 1,000',
      ...shownAs(Type.Integer({ minimum: 1, maximum: limitMax, default: limitDefault })),
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,64}$',
      rule: cursorRule,
      description:
        'From the `Link` of the page before; opaque. A page ends at `limit` rows or at 4 MiB: where it has a `Link`, there are more.',
    }),
  ),
}

const mark = 'id:'

/** Opaque to callers; pages go by ids, so concurrent inserts and deletions move nothing. */
function cursorOf(id: number): string {
  return Buffer.from(`${mark}${id}`).toString('base64url')
}

/** Throws AppError `validation_failed` for an invalid cursor. */
function readCursor(cursor: string): number {
  const text = Buffer.from(cursor, 'base64url').toString('latin1')
  const id = text.startsWith(mark) ? Number(text.slice(mark.length)) : Number.NaN
  if (Number.isSafeInteger(id) && cursorOf(id) === cursor) return id
  throw validationFailed([{ path: '/cursor', message: cursorRule }])
}

export interface PageParameters {
  limit?: string
  cursor?: string
}

export function readPage({ limit, cursor }: PageParameters): { limit: number; before?: number } {
  return {
    limit: limit === undefined ? limitDefault : Number(limit),
    ...(cursor === undefined ? {} : { before: readCursor(cursor) }),
  }
}

/** The path that was asked for, without a slash at its end: `Location` is below it. */
export function placeOf({ url }: FastifyRequest): string {
  return url.split('?')[0]!.replace(/\/$/, '')
}

/** The address of the next page is this request's, with another cursor (a text is one already); relative, so that it is right behind any proxy. */
export function linkNext(
  request: FastifyRequest,
  reply: FastifyReply,
  next: number | string | undefined,
): void {
  if (next === undefined) return
  const [path, query = ''] = request.url.split('?')
  const parameters = new URLSearchParams(query)
  parameters.set('cursor', typeof next === 'number' ? cursorOf(next) : next)
  reply.header('link', `<${path}?${parameters}>; rel="next"`)
}

/** Read at once, of rows that may have some KiB: a page of the usual limit, and whether there is one more. */
const rowsAtOnce = 101
/**
 * Reads a page some rows at a time; it ends at `limit` rows or at `pageBytesMax` of their JSON, the first comes whatever its
 * size. `isLast` is false where there are rows behind them. `read` gives up to `limit` rows behind `last`, and fewer only where there are no more.
 */
export async function sizedPage<Row>(
  limit: number,
  read: (limit: number, last: Row | undefined) => Promise<Row[]>,
): Promise<{ rows: Row[]; isLast: boolean }> {
  const rows: Row[] = []
  let bytes = 0
  for (;;) {
    const wanted = Math.min(rowsAtOnce, limit - rows.length + 1)
    const some = await read(wanted, rows.at(-1))
    for (const row of some) {
      bytes += Buffer.byteLength(JSON.stringify(row)) + rowBytes
      if (rows.length === limit || (rows.length > 0 && bytes > pageBytesMax)) return { rows, isLast: false }
      rows.push(row)
    }
    if (some.length < wanted) return { rows, isLast: true }
    await nextTurn()
  }
}

/** What an answer may show of a row besides what the row has: names of fields. */
const rowBytes = 512
