/** How many bytes of upserts may arrive at the same time. */

import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { createByteBudget } from '#services/vectors/gateway/points/byte-budget.ts'

const requestOf = (headers: Record<string, string>) =>
  Object.assign(new EventEmitter(), { headers }) as unknown as IncomingMessage
const mebibytes = (n: number) => ({ 'content-length': String(n * 1024 * 1024) })

test('eight of the largest bodies fit at the same time; the next one fits when one of them is closed', () => {
  const budget = createByteBudget()
  const first = requestOf({ 'transfer-encoding': 'chunked' })
  budget.take(first)
  for (let n = 0; n < 7; n++) budget.take(requestOf(mebibytes(64)))
  expect(() => budget.take(requestOf(mebibytes(1)))).toThrowError(
    expect.objectContaining({ code: 'overloaded', retryAfter: 1 }),
  )
  budget.take(requestOf({ 'content-length': '2000' }))
  budget.take(requestOf({}))
  first.emit('close')
  budget.take(requestOf(mebibytes(64)))
})
