/** Places of open streams: a caller's own, those of an instance, and what giving back does. */

import { expect, test } from 'vitest'
import { createStreamPlaces } from '#services/access/limits/stream-places.ts'

const refusal = { code: 'too_many_streams', statusCode: 429, retryAfter: expect.any(Number) }
const takes = (take: () => unknown) => {
  try {
    return take()
  } catch (error) {
    return error
  }
}

test('a caller has ten places, and another one still has its own', () => {
  const places = createStreamPlaces()
  const held = Array.from({ length: 10 }, () => places.take('a'))
  expect(takes(() => places.take('a'))).toMatchObject(refusal)
  const other = places.take('b')
  held[0]!.release()
  places.take('a')
  expect(takes(() => places.take('a'))).toMatchObject(refusal)
  expect(places.taken()).toBe(11)
  other.release()
  expect(places.taken()).toBe(10)
})

test('an instance has 500 places', () => {
  const places = createStreamPlaces()
  const held = Array.from({ length: 500 }, (_, n) => places.take(`caller-${n % 50}`))
  expect(takes(() => places.take('late'))).toMatchObject(refusal)
  held[7]!.release()
  places.take('late')
  expect(places.taken()).toBe(500)
})

test('a place is given back once', () => {
  const places = createStreamPlaces({ callerMax: 2 })
  const first = places.take('a')
  places.take('a')
  first.release()
  first.release()
  expect(places.taken()).toBe(1)
  places.take('a')
  expect(takes(() => places.take('a'))).toMatchObject(refusal)
})

test('names of callers that are members of every object are nothing special', () => {
  const places = createStreamPlaces({ callerMax: 1 })
  for (const name of ['__proto__', 'constructor', '']) places.take(name).release()
  expect(places.taken()).toBe(0)
})
