/** What an agent's tier and its own figures allow. */

import { expect, test } from 'vitest'
import { limitsOf } from '#services/access/limits/limiter.ts'
import { agentCaller } from '../../../../support/limits-clock.ts'

test('a figure of its own wins over the tier, in every tier', () => {
  expect(limitsOf(agentCaller)).toEqual({ day: 10_000, rate: 50, slots: 5 })
  expect(limitsOf({ ...agentCaller, quota: 0, burst: 7, concurrent: 9 })).toEqual({
    day: 0,
    rate: 7,
    slots: 9,
  })
  const architect = { ...agentCaller, tier: 'infra-architect' } as const
  expect(limitsOf(architect)).toEqual({ day: null, rate: null, slots: null })
  expect(limitsOf({ ...architect, burst: 7 })).toEqual({ day: null, rate: 7, slots: null })
})

test('where the day does not count, the other figures do', () => {
  expect(limitsOf({ ...agentCaller, quota: 3, burst: 7 }, false)).toEqual({ day: null, rate: 7, slots: 5 })
})
