/** A million records wait, or those of one target for hours: the memory of the consumer stays where it is. */

import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

const child = fileURLToPath(new URL('./consumer-memory-child.ts', import.meta.url))
const partitions = 4
const records = 1_000_000
/** Four partitions with 16 MB of records each by the runtime's reckoning, the rest of the process, and garbage. */
const heapMbMax = 320

test.each(['batch', 'lanes'])(
  'a million records that wait take bounded memory, in %s mode',
  async (mode) => {
    const directory = temporaryFolder()
    const log = await openEmbeddedLog({ directory })
    const harness = await createHarness(log, { topic: testTopic('work'), partitions })
    const chunk = Array.from({ length: 10_000 }, (_, n) => ({ key: `lane-${n % 500}` }))
    for (let n = 0; n < records; n += chunk.length) await harness.add((n / chunk.length) % partitions, chunk)
    await log.close()
    const limits = [`--max-old-space-size=${heapMbMax}`]
    const { stdout } = await promisify(execFile)(process.execPath, [
      ...limits,
      child,
      directory,
      mode,
      String(records),
    ])
    const result = JSON.parse(stdout) as { handled: number; heapMbMax: number }
    expect(result.handled).toBe(records)
    expect(result.heapMbMax).toBeLessThan(heapMbMax)
  },
  300_000,
)

/** Each of the first deliveries comes among 150 KB of other writes: kept as it is read, it would keep these as well. */
const deliveries = 200_000
const amongOthers = 3_000
const pinnedChild = fileURLToPath(new URL('./consumer-pinned-child.ts', import.meta.url))

test.each([
  ['embedded', 'lanes', async () => temporaryFolder()],
  ['embedded', 'batch', async () => temporaryFolder()],
  ['kafka', 'lanes', async () => (await kafkaBrokers())[0]!],
])(
  '200,000 deliveries for a target that is away, next to other traffic: %s log, %s mode',
  async (_, mode, where) => {
    const run = [
      pinnedChild,
      await where(),
      `work-${randomUUID()}`,
      mode,
      String(deliveries),
      String(amongOthers),
    ]
    const { stdout } = await promisify(execFile)(process.execPath, run)
    const result = JSON.parse(stdout) as { deliveries: number; rssMb: number; arrayBuffersMb: number }
    expect(result.deliveries).toBe(deliveries)
    expect(result.rssMb).toBeLessThan(200)
    expect(result.arrayBuffersMb).toBeLessThan(60)
  },
  300_000,
)
