/** Many records wait, or those of one target for hours: the memory of the consumer stays bounded. */

import { test } from 'vitest'
import { expectBoundedHeap, expectNothingPinned } from '#test/support/consumer-memory.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

/** Held all at once they would take 400 MB. test/long/consumer-memory.test.ts has a million. */
const waiting = { records: 40_000, valueBytes: 10_000, heapMbMax: 220 }

test.each(['batch', 'lanes'] as const)(
  'many records that wait take bounded memory, in %s mode',
  (mode) => expectBoundedHeap(mode, waiting),
  300_000,
)

/** The first ones, kept as they are read, would keep 150 MB of other writes. */
const given = { deliveries: 20_000, amongOthers: 1_000 }

test.each([
  ['embedded', 'lanes', async () => temporaryFolder()],
  ['embedded', 'batch', async () => temporaryFolder()],
  ['kafka', 'lanes', async () => (await kafkaBrokers())[0]!],
] as const)(
  'deliveries for a target that is away, next to other traffic: %s log, %s mode',
  async (_, mode, where) => expectNothingPinned({ ...given, mode, where: await where() }),
  300_000,
)
