/** Work that is repeated while its engine is away: the log names the setting once, then at each doubling of the tries. */

import { pino } from 'pino'
import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { repeatUntil } from '#runtime/repeat.ts'

test('a failure that lasts is logged at its begin and at each doubling, and so is its end', async () => {
  const lines: Record<string, unknown>[] = []
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) })
  const stop = new AbortController()
  let runs = 0
  await repeatUntil({ what: 'progress of vectors', everyMs: 0, signal: stop.signal, log }, async () => {
    runs += 1
    if (runs <= 11) throw new AppError('log_unavailable', 'The event log does not answer.')
    if (runs === 14) stop.abort()
  })
  expect(lines.map(({ msg, tries }) => [msg, tries])).toEqual([
    ...[1, 2, 4, 8].map((tries) => ['repeat.failing', tries]),
    ['repeat.recovered', 11],
  ])
  const hint = expect.stringContaining('is KAFKA_BROKERS right')
  expect(lines[0]).toMatchObject({ what: 'progress of vectors', hint })
})
