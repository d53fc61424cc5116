/**
 * Kafka's default partitioner for records with a key, so that every driver and every language chooses the same
 * partition.
 *
 * The embedded platform needs it without a Kafka client. The package murmurhash gives the same hash; these lines never
 * change, and Kafka's own test values check them, so they are not worth a dependency.
 */

/** MurmurHash2, 32 bit, seed 0x9747b28c (org.apache.kafka.common.utils.Utils#murmur2). */
export function murmur2(data: Uint8Array): number {
  const m = 0x5bd1e995
  const length = data.length
  let h = 0x9747b28c ^ length
  const whole = length & ~3
  for (let i = 0; i < whole; i += 4) {
    let k = data[i]! | (data[i + 1]! << 8) | (data[i + 2]! << 16) | (data[i + 3]! << 24)
    k = Math.imul(k, m)
    k ^= k >>> 24
    k = Math.imul(k, m)
    h = Math.imul(h, m) ^ k
  }
  const rest = length & 3
  if (rest === 3) h ^= data[whole + 2]! << 16
  if (rest >= 2) h ^= data[whole + 1]! << 8
  if (rest >= 1) {
    h ^= data[whole]!
    h = Math.imul(h, m)
  }
  h ^= h >>> 13
  h = Math.imul(h, m)
  h ^= h >>> 15
  return h
}

/** The partition of a key among `partitions`, as Kafka's Java client chooses it. */
export function partitionOf(key: Uint8Array, partitions: number): number {
  return (murmur2(key) & 0x7fffffff) % partitions
}
