/** How often an agent key may be traded. */

import { expect, test } from 'vitest'
import { createKeyLimits } from '#services/access/agent-keys/trades.ts'

function limitsAt() {
  let now = 1_000_000
  const limits = createKeyLimits(() => now)
  return {
    move(ms: number) {
      now += ms
    },
    /** 0, or the seconds to wait. */
    wait(key: string, address = '198.51.100.1'): number {
      try {
        limits.admit(key, address)
        return 0
      } catch (error) {
        expect(error).toMatchObject({ code: 'rate_limited', statusCode: 429 })
        return (error as { retryAfter: number }).retryAfter
      }
    },
  }
}

test('five at once, then with the pace of ten a minute, and never more than ten in a minute', () => {
  const { wait, move } = limitsAt()
  expect([1, 2, 3, 4, 5].map(() => wait('a'))).toEqual([0, 0, 0, 0, 0])
  expect(wait('a')).toBe(6)
  expect(wait('b')).toBe(0)
  move(6_000)
  expect([1, 2, 3, 4, 5].map(() => wait('a'))).toEqual([0, 0, 0, 0, 0])
  expect(wait('a')).toBe(54)
  move(53_999)
  expect(wait('a')).toBe(0.001)
  move(1)
  expect(wait('a')).toBe(0)
})

test('a refused trade does not count, and the key counts from every address', () => {
  const { wait, move } = limitsAt()
  for (let n = 0; n < 5; n++) wait('a', `198.51.100.${n}`)
  for (let n = 0; n < 100; n++) expect(wait('a', `198.51.101.${n}`)).toBe(6)
  move(6_000)
  expect(wait('a')).toBe(0)
})

test('an address asks a hundred times a second, a /64 is one address', () => {
  const { wait, move } = limitsAt()
  for (let n = 0; n < 100; n++) expect(wait(`key-${n}`, `2001:db8::${n.toString(16)}`)).toBe(0)
  expect(wait('another', '2001:db8::ffff')).toBe(1)
  expect(wait('another', '2001:db8:0:1::1')).toBe(0)
  move(1_000)
  expect(wait('one more', '2001:db8::ffff')).toBe(0)
})
