/** Wrong passwords make their address wait, and nobody else for long. */

import { expect, test } from 'vitest'
import { createSignInLimits } from '#services/access/people/sign-in-limits.ts'

function clocked() {
  let nowMs = 0
  const limits = createSignInLimits(() => nowMs)
  /** 0 when it is admitted, else the seconds to wait. */
  function wait(account: string, address: string, browser?: string): number {
    try {
      limits.admit(account, address, browser)
      return 0
    } catch (error) {
      expect((error as { code: string }).code).toBe('rate_limited')
      return (error as { retryAfter: number }).retryAfter
    }
  }
  return {
    limits,
    wait,
    pass(ms: number) {
      nowMs += ms
    },
  }
}

test('after five wrong tries an address waits, each time twice as long, at most a minute', () => {
  const { wait, pass } = clocked()
  for (let n = 0; n < 5; n++) expect(wait('ana@x', '192.0.2.1')).toBe(0)
  const waits: number[] = []
  for (let n = 0; n < 9; n++) {
    const seconds = wait('ANA@X', '192.0.2.1')
    waits.push(seconds)
    pass(seconds * 1_000)
    expect(wait('ana@x', '192.0.2.1')).toBe(0)
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
  expect(wait('bea@x', '192.0.2.1')).toBe(0)
  expect(wait('ana@x', '192.0.2.2')).toBe(0)
})

test('tries at an address that only folds to another one do not count for it', () => {
  const { wait } = clocked()
  for (let n = 0; n < 6; n++) wait('\u212aim@x', '192.0.2.1')
  expect(wait('\u212aim@x', '192.0.2.1')).toBeGreaterThan(0)
  expect(wait('kim@x', '192.0.2.1')).toBe(0)
})

test('the times named are true, and trying in between makes no wait longer', () => {
  const { wait, pass } = clocked()
  for (let n = 0; n < 6; n++) {
    wait('ana@x', '192.0.2.1')
    pass(n === 5 ? 0 : 1)
  }
  expect(wait('ana@x', '192.0.2.1')).toBeCloseTo(0.999, 2)
  pass(500)
  expect(wait('ana@x', '192.0.2.1')).toBeCloseTo(0.499, 2)
  pass(499)
  expect(wait('ana@x', '192.0.2.1')).toBe(0)
})

test('500 wrong passwords from many addresses keep a fresh address out for seconds, and a known one not at all', () => {
  const { limits, wait, pass } = clocked()
  limits.admit('ana@x', '198.51.100.7').right()
  let admitted = 0
  for (let n = 0; n < 500; n++) {
    if (wait('ana@x', `203.0.113.${n % 250}`) === 0) admitted++
    pass(10)
  }
  expect(admitted).toBeLessThan(45)
  expect(wait('ana@x', '198.51.100.7')).toBe(0)
  const seconds = wait('ana@x', '192.0.2.9')
  expect(seconds).toBeGreaterThan(0)
  expect(seconds).toBeLessThanOrEqual(15)
  pass(seconds * 1_000)
  expect(wait('ana@x', '192.0.2.9')).toBe(0)
  expect(wait('bea@x', '192.0.2.9')).toBe(0)
})

test('a right password forgets the wrong ones of its address', () => {
  const { limits, wait } = clocked()
  for (let round = 0; round < 5; round++) {
    for (let n = 0; n < 4; n++) expect(wait('ana@x', '192.0.2.1')).toBe(0)
    limits.admit('ana@x', '192.0.2.1').right()
  }
  for (let n = 0; n < 5; n++) expect(wait('ana@x', '192.0.2.1')).toBe(0)
  expect(wait('ana@x', '192.0.2.1')).toBe(1)
})

test('attempts that were never checked do not count', () => {
  const { limits } = clocked()
  for (let n = 0; n < 100; n++) limits.admit('ana@x', '192.0.2.1').takeBack()
})

test('one address tries 30 times a minute over all accounts; an IPv6 /64 is one address', () => {
  const { wait, pass } = clocked()
  for (let n = 0; n < 30; n++) expect(wait(`a${n}@x`, `2001:db8::${n}`)).toBe(0)
  expect(wait('new@x', '2001:db8::ffff')).toBe(60)
  expect(wait('new@x', '2001:db8:0:1::1')).toBe(0)
  pass(60_000)
  expect(wait('new@x', '2001:db8::ffff')).toBe(0)
})

test('an account at an address where it signed in before is not held up by wrong tries at others', () => {
  const { limits, wait, pass } = clocked()
  limits.admit('ana@x', '192.0.2.1').right()
  for (let n = 0; n < 400; n++) {
    wait(`nobody${n}@x`, '192.0.2.1')
    pass(2_000)
  }
  expect(wait('stranger@x', '192.0.2.1')).toBeGreaterThan(60)
  // Its own tries are as many as before.
  expect([1, 2, 3, 4, 5].map(() => wait('ana@x', '192.0.2.1'))).toEqual([0, 0, 0, 0, 0])
  expect(wait('ana@x', '192.0.2.1')).toBe(1)
})

test('a browser that signed in before is held up by its own tries alone, and has no more than any other', () => {
  const { limits, wait } = clocked()
  for (let n = 0; n < 5; n++) wait('ana@x', '192.0.2.1')
  expect(wait('ana@x', '192.0.2.1')).toBe(1)
  expect([1, 2, 3, 4, 5].map(() => wait('ana@x', '192.0.2.1', 'b'))).toEqual([0, 0, 0, 0, 0])
  expect(wait('ana@x', '192.0.2.1', 'b')).toBe(1)
  // They count for the address as well.
  for (let n = 0; n < 20; n++) expect(wait(`a${n}@x`, '192.0.2.1')).toBe(0)
  expect(wait('more@x', '192.0.2.1')).toBe(60)
  limits.admit('ana@x', '192.0.2.1', 'c').right()
  expect(wait('ana@x', '192.0.2.1')).toBe(0)
  expect(wait('more@x', '192.0.2.1')).toBe(60)
})

test('after a quarter of an hour all is forgotten', () => {
  const { wait, pass } = clocked()
  for (let n = 0; n < 5; n++) wait('ana@x', '192.0.2.1')
  pass(15 * 60_000)
  for (let n = 0; n < 5; n++) expect(wait('ana@x', '192.0.2.1')).toBe(0)
})
