/** The partition of a key is the one that Kafka's own clients choose. */

import { describe, expect, test } from 'vitest'
import { murmur2, partitionOf } from '#lib/murmur2.ts'

describe('the partition of a key', () => {
  // From Apache Kafka's own UtilsTest: another value would scatter a key's records over two partitions.
  test.each([
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107],
  ])('hashes %s as the Java client does', (text, hash) => {
    expect(murmur2(Buffer.from(text))).toBe(hash)
  })

  test('is within the partitions, also for negative hashes', () => {
    for (let i = 0; i < 1000; i++) {
      const partition = partitionOf(Buffer.from(`key-${i}`), 12)
      expect(partition).toBeGreaterThanOrEqual(0)
      expect(partition).toBeLessThan(12)
    }
  })
})
