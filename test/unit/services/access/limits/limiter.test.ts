/** The limits of an agent in one process and in several: exact waits, nothing granted twice. */

import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AppError } from '#lib/errors.ts'
import type { Limiter } from '#services/access/limits/limiter.ts'
import {
  agentCaller,
  createSharedWorld,
  type Outcome,
  pass,
  tryBegin,
} from '../../../../support/limits-clock.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'

beforeEach(() => {
  // Not nextTick, nor setImmediate: promises go on by themselves.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'] })
  vi.setSystemTime(Date.UTC(2026, 0, 31, 12))
})
afterEach(() => vi.useRealTimers())

/** A request whose operation ends at once; the fake clock moves until it is decided. */
async function quick(limiter: Limiter, caller = agentCaller): Promise<Outcome> {
  const outcome = await decided(tryBegin(limiter, caller))
  if (outcome.ok) outcome.end()
  return outcome
}

async function decided<T>(work: Promise<T>): Promise<T> {
  let done = false
  const settled = work.finally(() => {
    done = true
  })
  settled.catch(() => {})
  for (let turn = 0; !done && turn < 10_000; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    if (!done && turn > 2) await pass(1)
  }
  return settled
}

test('50 back to back pass after a pause, the 51st is refused with the true wait', async () => {
  const limiter = createSharedWorld().gateway('a')
  for (let n = 0; n < 50; n++) expect(await quick(limiter)).toMatchObject({ ok: true })
  const refused = await quick(limiter)
  expect(refused).toMatchObject({ ok: false, code: 'rate_limited' })
  await pass((refused as { retryAfter: number }).retryAfter * 1_000)
  expect(await quick(limiter)).toMatchObject({ ok: true })
  await decided(limiter.close())
})

test('several requests at once use the whole rate before one is refused, however long an ask takes', async () => {
  const world = createSharedWorld()
  const limiter = world.gateway('a')
  world.latencyMs = 30
  let begun = 0
  let refused: Outcome | undefined
  async function work(): Promise<void> {
    while (!refused) {
      const outcome = await tryBegin(limiter)
      if (outcome.ok) {
        begun += 1
        await new Promise((resolve) => setTimeout(resolve, 1))
        outcome.end()
      } else if (outcome.code === 'rate_limited') refused = outcome
    }
  }
  await decided(Promise.all([work(), work(), work(), work()]))
  expect(begun).toBe(50)
  expect((refused as { retryAfter: number }).retryAfter).toBeGreaterThan(0.5)
  await decided(limiter.close())
})

test('one more than the concurrency is refused, and passes when one has ended', async () => {
  const limiter = createSharedWorld().gateway('a')
  const running: Outcome[] = []
  for (let n = 0; n < 5; n++) running.push(await decided(tryBegin(limiter)))
  expect(running.every((one) => one.ok)).toBe(true)
  const refused = await quick(limiter)
  expect(refused).toMatchObject({ ok: false, code: 'too_many_concurrent' })
  expect((refused as { retryAfter: number }).retryAfter).toBeGreaterThan(0)
  const first = running[0] as Extract<Outcome, { ok: true }>
  first.end()
  first.end()
  expect(await decided(tryBegin(limiter))).toMatchObject({ ok: true })
  expect(await quick(limiter)).toMatchObject({ ok: false, code: 'too_many_concurrent' })
  await decided(limiter.close())
})

test('the quota ends at 00:00 UTC, and its refusal says when', async () => {
  const limiter = createSharedWorld().gateway('a')
  const caller = { ...agentCaller, quota: 7 }
  for (let n = 0; n < 7; n++) expect(await quick(limiter, caller)).toMatchObject({ ok: true })
  const refused = await quick(limiter, caller)
  expect(refused).toMatchObject({ ok: false, code: 'quota_exceeded' })
  const waitMs = (refused as { retryAfter: number }).retryAfter * 1_000
  expect(refused.at + waitMs).toBeGreaterThanOrEqual(Date.UTC(2026, 1, 1))
  expect(refused.at + waitMs).toBeLessThan(Date.UTC(2026, 1, 1) + 1_000)
  vi.setSystemTime(refused.at + waitMs)
  expect(await quick(limiter, caller)).toMatchObject({ ok: true })
  await decided(limiter.close())
})

test('a higher quota or another tier acts at once, a lower one, too', async () => {
  const limiter = createSharedWorld().gateway('a')
  expect(await quick(limiter, { ...agentCaller, quota: 1 })).toMatchObject({ ok: true })
  expect(await quick(limiter, { ...agentCaller, quota: 1 })).toMatchObject({ code: 'quota_exceeded' })
  expect(await quick(limiter, { ...agentCaller, quota: 3 })).toMatchObject({ ok: true })
  expect(await quick(limiter, { ...agentCaller, quota: 2 })).toMatchObject({ code: 'quota_exceeded' })
  for (let n = 0; n < 150; n++) {
    expect(await quick(limiter, { ...agentCaller, tier: 'research-agent' })).toMatchObject({ ok: true })
  }
  expect(await quick(limiter)).toMatchObject({ code: 'rate_limited' })
  for (let n = 0; n < 500; n++) {
    expect(await quick(limiter, { ...agentCaller, tier: 'infra-architect' })).toMatchObject({ ok: true })
  }
  await decided(limiter.close())
})

test('two gateways: all that may begin does, wherever it comes, and not one more', async () => {
  const world = createSharedWorld()
  const [a, b] = [world.gateway('a'), world.gateway('b')]
  const caller = { ...agentCaller, quota: 80 }
  const begun: number[] = []
  for (let n = 0; n < 50; n++) {
    const outcome = await quick(n % 2 === 0 ? a : b, caller)
    expect(outcome).toMatchObject({ ok: true })
    begun.push(outcome.at)
  }
  while (begun.length < 80) {
    const outcome = await quick(begun.length % 3 === 0 ? a : b, caller)
    if (outcome.ok) begun.push(outcome.at)
    else {
      expect(outcome.code).toBe('rate_limited')
      await pass(outcome.retryAfter * 1_000)
    }
  }
  for (const one of [a, b]) expect(await quick(one, caller)).toMatchObject({ code: 'quota_exceeded' })
  expect(mostInASecond(begun)).toBeLessThanOrEqual(50)
  await Promise.all([decided(a.close()), decided(b.close())])
})

test('what a killed gateway held comes back within five seconds, but for a hundredth of the day', async () => {
  const world = createSharedWorld()
  const dead = world.gateway('dead')
  for (let n = 0; n < 5; n++) expect(await decided(tryBegin(dead))).toMatchObject({ ok: true })
  world.killed.add('dead')
  const survivor = world.gateway('survivor')
  expect(await quick(survivor)).toMatchObject({ ok: false, code: 'too_many_concurrent' })
  await pass(5_000)
  for (let n = 0; n < 50; n++) expect(await quick(survivor)).toMatchObject({ ok: true })
  expect(world.agents.get('agent_1')?.leased).toBeLessThanOrEqual(55 + 2 * 100)
})

test('away: the lease is spent, then 503 until it is back', async () => {
  const world = createSharedWorld()
  const limiter = world.gateway('a')
  expect(await quick(limiter)).toMatchObject({ ok: true })
  world.fault = new AppError('relational_engine_unavailable', 'away')
  let spent = 0
  let outcome = await quick(limiter)
  for (; outcome.ok; outcome = await quick(limiter)) spent += 1
  expect(spent).toBeGreaterThan(0)
  expect(spent).toBeLessThan(50)
  expect(outcome).toMatchObject({ code: 'relational_engine_unavailable', retryAfter: 1 })
  await pass(10_000)
  expect(await quick(limiter)).toMatchObject({ code: 'relational_engine_unavailable' })
  world.fault = null
  await pass(1_000)
  for (let n = 0; n < 50; n++) expect(await quick(limiter)).toMatchObject({ ok: true })
  await decided(limiter.close())
})

test('the usual request asks nobody, and a flood of refused ones asks seldom', async () => {
  const world = createSharedWorld()
  const limiter = world.gateway('a')
  for (let n = 0; n < 200; n++) {
    expect(await quick(limiter)).toMatchObject({ ok: true })
    await pass(30)
  }
  expect(world.asks.length).toBeLessThan(80)
  world.asks.length = 0
  for (let n = 0; n < 1_000; n++) await quick(limiter)
  expect(world.asks.length).toBeLessThan(60)
  await decided(limiter.close())
})

test('what an agent used is not forgotten while it is quiet', async () => {
  const limiter = createSharedWorld().gateway('a')
  const caller = { ...agentCaller, quota: 6 }
  for (let n = 0; n < 3; n++) {
    for (let i = 0; i < 2; i++) expect(await quick(limiter, caller)).toMatchObject({ ok: true })
    await pass(45_000)
  }
  expect(await quick(limiter, caller)).toMatchObject({ code: 'quota_exceeded' })
  await decided(limiter.close())
})

test('a shared state that answers too late refuses nobody: it counts as away', async () => {
  const world = createSharedWorld()
  const limiter = world.gateway('a')
  world.latencyMs = 1_000
  expect(await quick(limiter)).toMatchObject({ code: 'relational_engine_unavailable' })
  world.latencyMs = 400
  await pass(2_000)
  expect(await quick(limiter)).toMatchObject({ ok: true })
  await decided(limiter.close())
})

test('everything that is idle is given back, and a long operation keeps its slot', async () => {
  const world = createSharedWorld()
  const [a, b] = [world.gateway('a'), world.gateway('b')]
  const long: Outcome[] = []
  for (let n = 0; n < 5; n++) long.push(await decided(tryBegin(a)))
  await pass(10_000)
  expect(await quick(b)).toMatchObject({ code: 'too_many_concurrent' })
  for (const one of long) if (one.ok) one.end()
  await pass(1_000)
  const agent = world.agents.get('agent_1')!
  expect(agent.leased).toBe(5)
  for (const holder of agent.holders.values()) expect(holder).toMatchObject({ rate: 0, slots: 0, busy: 0 })
  for (let n = 0; n < 5; n++) expect(await decided(tryBegin(b))).toMatchObject({ ok: true })
})

test('what runs while the shared rows are away keeps its slot for three seconds', async () => {
  const world = createSharedWorld()
  const [a, b] = [world.gateway('a'), world.gateway('b')]
  for (let n = 0; n < 5; n++) expect(await decided(tryBegin(a))).toMatchObject({ ok: true })
  world.fault = new AppError('relational_engine_unavailable', 'away')
  await pass(3_000)
  world.fault = null
  expect(await quick(b)).toMatchObject({ ok: false, code: 'too_many_concurrent' })
})

const step = fc.record({
  gateway: fc.nat(2),
  pauseMs: fc.constantFrom(0, 0, 0, 1, 5, 20, 150, 400, 1_100),
  burst: fc.integer({ min: 1, max: 30 }),
  lastsMs: fc.constantFrom(0, 0, 3, 50, 700, 3_000),
  latencyMs: fc.constantFrom(0, 1, 1, 4, 30, 400, 1_000),
  away: fc.integer({ min: 0, max: 12 }).map((n) => n === 0),
})

test('whatever comes, wherever: no second, no moment and no day holds more than its limit', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      vi.clearAllTimers()
      vi.setSystemTime(Date.UTC(2026, 0, 31, 12))
      const world = createSharedWorld()
      const gateways = ['a', 'b', 'c'].map((name) => world.gateway(name))
      const caller = { ...agentCaller, quota: 150 }
      const begun: number[] = []
      let running = 0
      let most = 0
      const begin = async (limiter: Limiter, lastsMs: number) => {
        const outcome = await tryBegin(limiter, caller)
        if (!outcome.ok) return
        begun.push(Date.now())
        running += 1
        most = Math.max(most, running)
        setTimeout(() => {
          running -= 1
          outcome.end()
        }, lastsMs)
      }
      for (const { gateway, pauseMs, burst, lastsMs, latencyMs, away } of steps) {
        world.latencyMs = latencyMs
        world.fault = away ? new AppError('relational_engine_unavailable', 'away') : null
        for (let n = 0; n < burst; n++) void begin(gateways[gateway]!, lastsMs)
        await pass(pauseMs)
      }
      await pass(5_000)
      expect(mostInASecond(begun)).toBeLessThanOrEqual(50)
      expect(most).toBeLessThanOrEqual(5)
      expect(begun.length).toBeLessThanOrEqual(150)
    }),
    { numRuns: propertyRuns(80) },
  )
})

function mostInASecond(times: readonly number[]): number {
  const sorted = [...times].sort((x, y) => x - y)
  return Math.max(0, ...sorted.map((from) => sorted.filter((at) => at >= from && at < from + 1_000).length))
}
