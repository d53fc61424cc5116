/** A million records wait: the memory of the consumer stays where it is. */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
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
