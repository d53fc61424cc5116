/** A writer that may not begin yet waits: it asks again when records arrive, and now and then. */

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { afterEach, expect, it, vi } from 'vitest'
import type { TailOptions } from '#engines/event-log/port.ts'
import type { WriterContext } from '#services/vectors/write/generation-writer.ts'
import { relationalIndex } from '#services/vectors/write/rebuild.ts'
import { startIndexWriter } from '#services/vectors/write/worker.ts'
import { vectorsCommands } from '#topics/catalog.ts'

afterEach(() => void vi.useRealTimers())

it('asks whether it may begin when a record arrives, and hardly otherwise', async () => {
  vi.useFakeTimers()
  const tails: TailOptions[] = []
  const context = {
    engines: {
      eventLog: {
        async tail(options: TailOptions) {
          tails.push(options)
          return { close: async () => {} }
        },
      },
      relational: { query: async () => ({ rows: [], rowCount: 0 }), listen: async () => async () => {} },
    },
    publisher: { locationOf: ({ name }: { name: string }) => ({ physicalName: name, epoch: 1 }) },
    log: pino({ level: 'silent' }),
    metrics: new Registry(),
  } as unknown as WriterContext
  const before = vi.fn(async () => false)
  const writer = await startIndexWriter(context, { index: relationalIndex } as never, before)
  await vi.advanceTimersByTimeAsync(4_500)
  const atRest = before.mock.calls.length
  expect(atRest).toBeLessThanOrEqual(3)

  const arrivals = tails.find(({ topic }) => topic === vectorsCommands.name)
  expect(arrivals?.from).toBe('end')
  void arrivals?.records(0, [{ partition: 0, offset: 0, timestamp: 0, key: null, value: null, headers: {} }])
  await vi.advanceTimersByTimeAsync(1)
  expect(before).toHaveBeenCalledTimes(atRest + 1)
  await writer.close()
})
