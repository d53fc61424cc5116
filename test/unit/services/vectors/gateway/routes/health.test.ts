/** The probe of the engines' health: fresh when asked, and at rest when nobody asks. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createHealthProbe } from '#services/vectors/gateway/routes/health.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function engines(state: { away: boolean }) {
  const pings = { count: 0 }
  const ping = async () => {
    pings.count++
    if (state.away) throw new Error('away')
  }
  const probe = createHealthProbe({
    vectors: { ping },
    relational: { ping },
    eventLog: { ping },
  } as never)
  const ask = async () => {
    const asked = probe.latest()
    await vi.advanceTimersByTimeAsync(20)
    return (await asked).event_log.status
  }
  return { probe, pings, ask }
}

test('pings begin with the first question, go on while somebody asks, and end a minute later', async () => {
  const { probe, pings, ask } = engines({ away: false })
  await vi.advanceTimersByTimeAsync(600_000)
  expect(pings.count).toBe(0)
  expect(await Promise.all([ask(), ask()])).toEqual(['pass', 'pass'])
  expect(pings.count).toBe(3)
  await vi.advanceTimersByTimeAsync(10_000)
  expect(pings.count).toBe(18)
  await vi.advanceTimersByTimeAsync(120_000)
  const atRest = pings.count
  await vi.advanceTimersByTimeAsync(600_000)
  expect(pings.count).toBe(atRest)
  await probe.close()
})

test('a finding from before a rest is not reused after it', async () => {
  const state = { away: false }
  const { probe, ask } = engines(state)
  await ask()
  await vi.advanceTimersByTimeAsync(600_000)
  state.away = true
  expect(await Promise.all([ask(), ask()])).toEqual(['fail', 'fail'])
  await probe.close()
})
