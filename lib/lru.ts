/** Bounded caches that take memory as they fill. */

import { LRUCache } from 'lru-cache'

type Kept = NonNullable<unknown>

/**
 * Keeps the `countMax` entries that were used last. The library's own bound by count (`max`) allocates room for all of them at
 * the start, which takes tens of milliseconds for caches of some ten thousand; its bound by size does not.
 */
export function createLru<K extends Kept, V extends Kept>(
  countMax: number,
  options: Pick<LRUCache.Options<K, V, unknown>, 'disposeAfter' | 'ttl'> = {},
): LRUCache<K, V> {
  return new LRUCache<K, V>({ ...options, maxSize: countMax, sizeCalculation: () => 1 })
}
