import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { createHandshakeLimits } from '#services/identity/handshake/handshake-limits.ts'
import { createSlidingWindows } from '#services/limits/sliding-window.ts'
import { backlogPointsMax, createBacklog } from '#services/vectors/gateway/operations/backlog.ts'

function refusal(call: () => void): AppError | undefined {
  try {
    call()
  } catch (error) {
    return error as AppError
  }
  return undefined
}

test('20 handshakes pass at once, the 21st is refused with the true wait', () => {
  let now = 1_000
  const limits = createHandshakeLimits(() => now)
  for (let i = 0; i < 20; i++) limits.admit('whale', '10.0.0.1')
  const refused = refusal(() => limits.admit('whale', '10.0.0.1'))
  expect(refused).toMatchObject({ code: 'rate_limited', statusCode: 429, retryAfter: 1 })
  now += 999
  expect(refusal(() => limits.admit('whale', '10.0.0.1'))?.retryAfter).toBeCloseTo(0.001)
  now += 1
  limits.admit('whale', '10.0.0.1')
})

test('another agent or another address is not held up, but an address has 100 a second', () => {
  const limits = createHandshakeLimits(() => 0)
  for (let agent = 0; agent < 5; agent++) {
    for (let i = 0; i < 20; i++) limits.admit(`agent-${agent}`, '10.0.0.1')
  }
  expect(refusal(() => limits.admit('agent-9', '10.0.0.1'))).toMatchObject({
    code: 'rate_limited',
    retryAfter: 1,
  })
  limits.admit('agent-0', '10.0.0.2')
})

test('what is refused for one agent takes nothing from its address', () => {
  const limits = createHandshakeLimits(() => 0)
  for (let i = 0; i < 500; i++) refusal(() => limits.admit('noisy', '10.0.0.1'))
  for (let i = 0; i < 20; i++) limits.admit('quiet', '10.0.0.1')
})

test('300 a minute pass, then the first has to leave the minute', () => {
  let now = 0
  const limits = createHandshakeLimits(() => now)
  for (let i = 0; i < 300; i++) {
    limits.admit('whale', 'a')
    now += 100
  }
  expect(refusal(() => limits.admit('whale', 'a'))?.retryAfter).toBeCloseTo((60_000 - now) / 1_000)
  now = 60_000
  limits.admit('whale', 'a')
})

test('no window of any limit ever holds more than its count, and a refusal names the first moment that passes', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 200 }), (gaps) => {
      const limits = [
        { count: 3, windowMs: 100 },
        { count: 5, windowMs: 400 },
      ]
      const windows = createSlidingWindows(limits, 10)
      const admitted: number[] = []
      let now = 0
      for (const gap of gaps) {
        now += gap
        const wait = windows.waitMs('k', now)
        if (wait === 0) {
          windows.count('k', now)
          admitted.push(now)
        } else {
          expect(fits(limits, admitted, now + wait)).toBe(true)
          expect(fits(limits, admitted, now + wait - 1)).toBe(false)
        }
      }
      for (const time of admitted) {
        for (const { count, windowMs } of limits) {
          expect(
            admitted.filter((other) => other > time - windowMs && other <= time).length,
          ).toBeLessThanOrEqual(count)
        }
      }
    }),
  )
})

function fits(limits: { count: number; windowMs: number }[], admitted: number[], at: number): boolean {
  return limits.every(({ count, windowMs }) => admitted.filter((time) => time > at - windowMs).length < count)
}

/** A backlog over progress that the test moves. */
function backlogAt() {
  let applied: (partition: number, through: number) => void = () => {}
  const through = new Map<number, number>()
  let now = 0
  const backlog = createBacklog({
    appliedThrough: (partition) => through.get(partition) ?? -1,
    onApplied: (listener) => {
      applied = listener
    },
    now: () => now,
  })
  return {
    backlog,
    pass(ms: number) {
      now += ms
    },
    apply(partition: number, offset: number) {
      through.set(partition, offset)
      applied(partition, offset)
    },
  }
}

const positions = (partition: number, from: number, count: number) =>
  Array.from({ length: count }, (_, n) => ({ partition, offset: from + n }))

test('more than 20,000 points that are not applied are refused with a wait from the measured rate', () => {
  const { backlog, apply, pass } = backlogAt()
  for (let n = 0; n < 200; n++) backlog.reserve('whale', 100).accepted(positions(0, n * 100, 100))
  backlog.reserve('whale', 1_000).accepted(positions(1, 0, 1_000))
  expect(backlog.points('whale')).toBe(backlogPointsMax + 1_000)
  expect(refusal(() => backlog.reserve('whale', 1))).toMatchObject({ code: 'backlog_full', statusCode: 429 })
  backlog.reserve('pulse', 1).release()
  apply(0, 299)
  pass(1_000)
  apply(0, 499)
  // 500 points in the last second, and 500 too many.
  expect(refusal(() => backlog.reserve('whale', 1))?.retryAfter).toBeCloseTo(1)
  apply(0, 999)
  backlog.reserve('whale', 1)
})

test('what the log did not take is given back once, and what is applied before it is accepted never counts', () => {
  const { backlog, apply } = backlogAt()
  const failed = backlog.reserve('whale', 10)
  failed.release()
  failed.release()
  expect(backlog.points('whale')).toBe(0)
  apply(3, 50)
  const quick = backlog.reserve('whale', 2)
  quick.accepted(positions(3, 49, 2))
  quick.release()
  expect(backlog.points('whale')).toBe(0)
})
