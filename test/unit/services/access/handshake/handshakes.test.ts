/** How many handshakes an agent and an address may begin. */

import { expect, test } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { createHandshakeLimits, type HandshakeLimits } from '#services/access/handshake/handshakes.ts'

function admit(limits: HandshakeLimits, agentId: unknown, address: string): void {
  limits.admitAddress(address).admitAgent(agentId)
}

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
  for (let i = 0; i < 20; i++) admit(limits, 'whale', '10.0.0.1')
  const refused = refusal(() => admit(limits, 'whale', '10.0.0.1'))
  expect(refused).toMatchObject({ code: 'rate_limited', statusCode: 429, retryAfter: 1 })
  now += 999
  expect(refusal(() => admit(limits, 'whale', '10.0.0.1'))?.retryAfter).toBeCloseTo(0.001)
  now += 1
  admit(limits, 'whale', '10.0.0.1')
})

test('another agent or another address is not held up, but an address has 100 a second', () => {
  const limits = createHandshakeLimits(() => 0)
  for (let agent = 0; agent < 5; agent++) {
    for (let i = 0; i < 20; i++) admit(limits, `agent-${agent}`, '10.0.0.1')
  }
  expect(refusal(() => admit(limits, 'agent-9', '10.0.0.1'))).toMatchObject({
    code: 'rate_limited',
    retryAfter: 1,
  })
  admit(limits, 'agent-0', '10.0.0.2')
})

test('a refusal for one agent takes nothing from its address', () => {
  const limits = createHandshakeLimits(() => 0)
  for (let i = 0; i < 500; i++) refusal(() => admit(limits, 'noisy', '10.0.0.1'))
  for (let i = 0; i < 20; i++) admit(limits, 'quiet', '10.0.0.1')
})

test('300 a minute pass, then the first has to leave the minute', () => {
  let now = 0
  const limits = createHandshakeLimits(() => now)
  for (let i = 0; i < 300; i++) {
    admit(limits, 'whale', 'a')
    now += 100
  }
  expect(refusal(() => admit(limits, 'whale', 'a'))?.retryAfter).toBeCloseTo((60_000 - now) / 1_000)
  now = 60_000
  admit(limits, 'whale', 'a')
})

test('what names no agent counts, too, for its address and as one name', () => {
  const limits = createHandshakeLimits(() => 0)
  for (let i = 0; i < 20; i++) admit(limits, i % 2 ? undefined : { a: 1 }, 'a')
  expect(refusal(() => admit(limits, 7, 'a'))).toMatchObject({ code: 'rate_limited', retryAfter: 1 })
  for (let i = 0; i < 80; i++) limits.admitAddress('a')
  expect(refusal(() => limits.admitAddress('a'))).toMatchObject({ code: 'rate_limited', retryAfter: 1 })
})

test('the addresses of an IPv6 /64 are one client', () => {
  const limits = createHandshakeLimits(() => 0)
  for (let i = 0; i < 20; i++) admit(limits, 'whale', `2001:db8:0:1::${i}`)
  expect(refusal(() => admit(limits, 'whale', '2001:db8:0:1:ffff::'))?.code).toBe('rate_limited')
  admit(limits, 'whale', '2001:db8:0:2::1')
})
