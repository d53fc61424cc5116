/** The pace of a stream: so many in any second, all while fewer come, a flood evenly, and a true wait. */

import { expect, test } from 'vitest'
import { createPace } from '#operations/topic-stream/topic-stream.ts'

const perSecond = 200

/** When those were shown that came at these times. */
function shown(times: Iterable<number>): number[] {
  let now = 0
  const pace = createPace(perSecond, () => now)
  const taken: number[] = []
  for (now of times) if (pace.take()) taken.push(now)
  return taken
}

function* every(ms: number, untilMs: number): Generator<number> {
  for (let at = 0; at < untilMs; at += ms) yield at
}

/** The most within any one second. */
function mostInASecond(times: readonly number[]): number {
  return Math.max(...times.map((at) => times.filter((one) => one >= at && one < at + 1_000).length))
}

test('records within the pace are all shown, also in one burst', () => {
  const calm = [...every(5, 3_000)]
  expect(shown(calm)).toEqual(calm)
  const bursts = [0, 1_000, 2_000, 4_500].flatMap((at) => new Array<number>(perSecond).fill(at))
  expect(shown(bursts)).toEqual(bursts)
})

test('of a flood no second has more than its number, and each tenth of a second has some', () => {
  const taken = shown(every(0.2, 5_000))
  expect(mostInASecond(taken)).toBeLessThanOrEqual(perSecond)
  expect(taken.length).toBeGreaterThan(900)
  for (let at = 2_000; at < 5_000; at += 100) {
    expect(taken.filter((one) => one >= at && one < at + 100).length).toBeGreaterThan(10)
  }
})

test('after a flood a burst is shown whole again', () => {
  const burst = new Array<number>(perSecond).fill(6_000)
  expect(shown([...every(0.2, 3_000), ...burst]).filter((at) => at === 6_000)).toHaveLength(perSecond)
})

test('after the wait that it names there is one, and not before', () => {
  let now = 0
  const pace = createPace(perSecond, () => now)
  while (pace.take());
  for (let n = 0; n < 500; n++) {
    const waitMs = pace.waitMs()
    expect(waitMs).toBeGreaterThan(0)
    // It is rounded up.
    now += waitMs - 1
    expect(pace.take()).toBe(false)
    now += 1
    expect(pace.take()).toBe(true)
    while (pace.take());
  }
})
