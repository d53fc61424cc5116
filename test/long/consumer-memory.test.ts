/** As test/faults/consumer-memory.test.ts, with a million records and 200,000 deliveries. */

import { test } from 'vitest'
import { expectBoundedHeap, expectNothingPinned } from '#test/support/consumer-memory.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

/** Four partitions with 16 MB of records each by the runtime's reckoning, the rest of the process, and garbage. */
const waiting = { records: 1_000_000, valueBytes: 2, heapMbMax: 320 }

test.each(['batch', 'lanes'] as const)(
  'a million records that wait take bounded memory, in %s mode',
  (mode) => expectBoundedHeap(mode, waiting),
  600_000,
)

const given = { deliveries: 200_000, amongOthers: 3_000, rssMbMax: 240 }

test.each([
  ['embedded', 'lanes', async () => temporaryFolder()],
  ['embedded', 'batch', async () => temporaryFolder()],
  ['kafka', 'lanes', async () => (await kafkaBrokers())[0]!],
] as const)(
  '200,000 deliveries for a target that is away, next to other traffic: %s log, %s mode',
  async (_, mode, where) => expectNothingPinned({ ...given, mode, where: await where() }),
  600_000,
)
