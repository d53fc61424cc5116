/** Ids of a topic's stream: they come back as they were made, and nothing else is taken for one. */

import { expect, test } from 'vitest'
import { readStreamId, streamIdOf } from '#operations/topic-stream/stream-id.ts'

const refusal = expect.objectContaining({ code: 'validation_failed' })
const refuses = (id: string, topic = 'a.topic') => {
  try {
    return readStreamId(topic, id)
  } catch (error) {
    return error
  }
}

test.each([
  { epoch: 1, next: [] },
  { epoch: 1, next: [0] },
  { epoch: 2, next: [0, 1, 127, 128, 129, 16_383, 16_384, 2 ** 32, Number.MAX_SAFE_INTEGER] },
  { epoch: 4_000, next: Array.from({ length: 1_024 }, (_, n) => n * 997) },
])('an id gives back its place: %j', (place) => {
  expect(readStreamId('a.topic', streamIdOf('a.topic', place))).toEqual(place)
})

test('an id of 64 partitions is short', () => {
  expect(streamIdOf('a.topic', { epoch: 1, next: new Array(64).fill(100_000) }).length).toBeLessThan(300)
})

test('an id of another topic is refused', () => {
  expect(refuses(streamIdOf('another.topic', { epoch: 1, next: [5] }))).toEqual(refusal)
})

test('whatever is changed of an id, it is refused or names a place', () => {
  const good = streamIdOf('a.topic', { epoch: 1, next: [300, 5, 70_000] })
  for (let at = 0; at < good.length; at++) {
    for (const other of ['A', '_', '=', ' ', '\0', '🙂', '']) {
      const changed = good.slice(0, at) + other + good.slice(at + 1)
      const found = refuses(changed)
      if (found instanceof Error) expect(found).toEqual(refusal)
      else expect(streamIdOf('a.topic', found as { epoch: number; next: number[] })).toBe(changed)
    }
  }
})

test.each(['', '0', 'AAAA', '__proto__', '-1', 'ÿ'.repeat(2_000), '_'.repeat(20_000)])(
  '%j is refused',
  (id) => {
    expect(refuses(id)).toEqual(refusal)
  },
)
