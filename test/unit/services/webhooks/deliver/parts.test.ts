/** The courier's parts on their own: breaker, lanes, unknown targets, attempts, trimming, and the warning of unstable lanes. */

import { Writable } from 'node:stream'
import { pino } from 'pino'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { PartitionReading } from '#runtime/consume/consumer.ts'
import { ringIdsMax } from '#runtime/consume/limits.ts'
import type { Publisher } from '#runtime/publish/messages.ts'
import type { WebhookAttempt, WebhookDelivery } from '#schemas/types.ts'
import { createAttempts } from '#services/webhooks/attempts/attempts.ts'
import { Lanes } from '#services/webhooks/deliver/lanes.ts'
import { LoadWatch } from '#services/webhooks/deliver/load-watch.ts'
import { trimDelivered } from '#services/webhooks/deliver/service.ts'
import { callsPerTargetMax, TargetState, UnknownTargets } from '#services/webhooks/deliver/target-state.ts'
import type { WebhookTarget, WebhookTargets } from '#services/webhooks/targets/targets-file.ts'
import { eventually } from '#test/support/eventually.ts'

const silent = pino({ level: 'silent' })
afterEach(() => vi.useRealTimers())

function targetOf(entry: Partial<WebhookTarget> = {}): WebhookTarget {
  return {
    name: 'hook',
    url: new URL('http://127.0.0.1:9/'),
    headers: {},
    retry: 5,
    backoffMs: 100,
    events: null,
    agents: null,
    ordering: 'target',
    onExhausted: 'dead_letter',
    holdHours: 72,
    signingSecrets: [],
    ...entry,
  }
}

const targetsOf = (...all: WebhookTarget[]): WebhookTargets => ({
  targets: new Map(all.map((one) => [one.name, one])),
  secrets: [],
  version: '1',
})
const delivery = (agent = 'a', entry: Partial<WebhookDelivery> = {}) =>
  ({ target: 'hook', agent, sequence: null, replay: false, received_at: 0, ...entry }) as WebhookDelivery
const at = (offset: number, partition = 3) => ({ partition, offset })

describe('the state of a target', () => {
  const noLookup = () => {}
  const open = () => new TargetState(targetOf({ ordering: 'agent' }), 0, noLookup)

  test('in an outage one head tries on; when it is settled another one does; an answer ends it', () => {
    // Whole milliseconds: sums of others are not exact.
    vi.useFakeTimers({ toFake: ['performance'], now: 1_000 })
    const state = open()
    const [one, other] = [state.headOf(1, delivery(), 0), state.headOf(2, delivery(), 0)]
    const now = performance.now()
    expect([state.waitMs(one, now), state.waitMs(other, now)]).toEqual([0, 0])
    expect(state.away(one)).toBe(1)
    state.nextTryAt(one, now + 500)
    expect(state.breaker).toBe('open')
    // One that was in flight when the outage began is not another try, and does not put the next one off.
    expect(state.away(other)).toBe(1)
    state.nextTryAt(other, now + 90_000)
    expect(state.waitMs(one, now)).toBe(500)
    expect(state.waitMs(one, now + 500)).toBe(0)
    expect(state.waitMs(other, now + 1_000)).toBe(Number.POSITIVE_INFINITY)
    expect(state.roomForOthers()).toBe(false)
    state.leave(1)
    expect(state.roomForOthers()).toBe(true)
    expect(state.waitMs(other, now + 1_000)).toBe(0)
    expect(state.away(other)).toBe(2)
    expect(state.answered()).toBe(true)
    expect(state.breaker).toBe('closed')
    expect(state.answered()).toBe(false)
  })

  test('waits as long when the clock is set back or forth meanwhile', () => {
    vi.useFakeTimers({ toFake: ['Date', 'performance'], now: 1_000_000_000 })
    const state = open()
    const head = state.headOf(1, delivery(), 0)
    const now = performance.now()
    head.dueAtMs = now + 60_000
    for (const hours of [-3, 3]) {
      vi.setSystemTime(1_000_000_000 + hours * 3_600_000)
      expect(state.waitMs(head, now)).toBe(60_000)
      expect(state.nextAttemptAtMs).toBe(Date.now() + 60_000)
    }
  })

  test('a new address is tried at once; another target’s change disturbs nothing', () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const state = open()
    const head = state.headOf(1, delivery(), 3)
    head.dueAtMs = performance.now() + 60_000
    state.away(head)
    state.nextTryAt(head, performance.now() + 60_000)
    state.renew(targetOf({ ordering: 'agent' }))
    expect(state.waitMs(head, performance.now())).toBe(60_000)
    state.renew(targetOf({ ordering: 'agent', url: new URL('http://127.0.0.1:10/') }))
    expect(state.waitMs(head, performance.now())).toBe(0)
    expect(callsPerTargetMax).toBeGreaterThan(1)
  })
})

describe('lanes', () => {
  test('know the last settled sequence of each, also of agents, and leave replays aside', () => {
    const lanes = new Lanes(() => targetsOf(targetOf({ ordering: 'agent' })))
    expect(lanes.previousOf(delivery('x'), at(0))).toBeNull()
    lanes.settled(delivery('x'), at(4))
    lanes.settled(delivery('y'), at(5))
    lanes.settled(delivery('x', { replay: true, sequence: 1 }), at(6))
    expect(lanes.previousOf(delivery('x'), at(7))).toBe(4)
    expect(lanes.previousOf(delivery('y'), at(7))).toBe(5)
    expect(lanes.previousOf(delivery('x', { replay: true }), at(7))).toBeNull()
    lanes.settled(delivery('x'), at(8, 30))
    lanes.forget([3])
    expect(lanes.previousOf(delivery('x'), at(8))).toBeNull()
    expect(lanes.previousOf(delivery('x'), at(9, 30))).toBe(8)
  })

  test('are bounded in bytes: the one that was used longest ago is forgotten', () => {
    const lanes = new Lanes(() => targetsOf(targetOf({ ordering: 'agent' })), 100_000)
    for (let n = 0; n < 1_000; n++) {
      lanes.settled(delivery(`agent-${n}`), at(n))
      lanes.settled(delivery('in use'), at(n))
    }
    expect(lanes.previousOf(delivery('agent-0'), at(0))).toBeNull()
    expect(lanes.previousOf(delivery('agent-999'), at(0))).toBe(999)
    expect(lanes.previousOf(delivery('in use'), at(0))).toBe(999)
  })

  test('take another ordering up when nothing of the old one is under way', () => {
    let targets = targetsOf(targetOf())
    const lanes = new Lanes(() => targets)
    expect(lanes.orderingOf('hook', true)).toBe('target')
    targets = targetsOf(targetOf({ ordering: 'agent' }))
    expect(lanes.orderingOf('hook')).toBe('target')
    expect(lanes.orderingOf('hook', true)).toBe('agent')
    expect(lanes.laneOf(delivery('x'))).not.toBe(lanes.laneOf(delivery('y')))
  })
})

test('every record of an unknown target has its whole wait, whenever the others came', () => {
  vi.useFakeTimers({ now: 1_000_000 })
  const unknown = new UnknownTargets(1_000)
  expect(unknown.left('hook', 1, 5_000)).toEqual({ leftMs: 1_000, first: true })
  vi.advanceTimersByTime(600)
  expect(unknown.left('hook', 1, 5_000)).toEqual({ leftMs: 400, first: false })
  expect(unknown.left('hook', 1, Date.now())).toEqual({ leftMs: 1_000, first: false })
  vi.advanceTimersByTime(60_000)
  expect(unknown.left('hook', 1, 5_000).leftMs).toBeLessThan(0)
  expect(unknown.renew(targetsOf(targetOf()))).toEqual([1])
  expect(unknown.left('hook', 1, 5_000)).toEqual({ leftMs: 1_000, first: true })
})

describe('attempts', () => {
  /** A log and a registry that are away until the test says otherwise; batches keep added records, as the real ones do. */
  function openAttempts() {
    const state = {
      logAway: false,
      registryAway: false,
      published: [] as number[],
      batches: [] as number[],
      refused: 0,
    }
    const refuse = () => {
      state.refused += 1
      throw new Error('away')
    }
    const batch = () => {
      const added: number[] = []
      return {
        get size() {
          return added.length
        },
        add({ value }: { value: WebhookAttempt }) {
          if (state.registryAway) refuse()
          // As where the schema is not known yet.
          if (added.length % 7 === 0) return Promise.resolve().then(() => void added.push(value.sequence!))
          added.push(value.sequence!)
        },
        async publish() {
          if (state.logAway) refuse()
          state.batches.push(added.length)
          state.published.push(...added)
        },
      }
    }
    // Nothing else of the publisher is used; its method is generic, which a fake cannot be.
    const attempts = createAttempts({ batch } as unknown as Publisher, silent)
    const add = (sequence: number) => attempts.add({ target: 'hook', sequence } as WebhookAttempt)
    return { state, attempts, add }
  }
  const upTo = (end: number) => Array.from({ length: end }, (_, n) => n)

  test.each(['logAway', 'registryAway'] as const)(
    'are published in order once it is back, and never waited for: %s',
    async (away) => {
      const { state, attempts, add } = openAttempts()
      state[away] = true
      for (let n = 0; n < 2_500; n++) add(n)
      await eventually('it was tried', () => state.refused > 0)
      for (let n = 2_500; n < 5_000; n++) add(n)
      state[away] = false
      await eventually('all are published', () => state.published.length >= 5_000)
      expect(state.published).toEqual(upTo(5_000))
      expect(Math.max(...state.batches)).toBeLessThanOrEqual(2_000)
      add(5_000)
      await attempts.close()
      expect(state.published).toEqual(upTo(5_001))
    },
  )

  test('that come while the log is away are bounded: the oldest that are in no batch are left out', async () => {
    const { state, attempts, add } = openAttempts()
    state.logAway = true
    for (let n = 0; n < 30_000; n++) {
      add(n)
      if (n % 1_000 === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    }
    state.logAway = false
    await eventually('the newest are published', () => state.published.at(-1) === 29_999)
    expect(state.published).toEqual(state.published.toSorted((a, b) => a - b))
    expect(state.published.length).toBeLessThanOrEqual(24_000)
    await attempts.close()
  })
})

test('settled records are trimmed, except those whose ids are read back and runs too short to be worth it', async () => {
  const cut: [number, number][] = []
  const eventLog = {
    offsets: async () =>
      [0, 1, 2, 3].map((partition) => ({ partition, start: partition === 2 ? 9_000 : 0, end: 20_000 })),
    async deleteRecords(_: string, partition: number, before: number) {
      if (partition === 3) throw new Error('away')
      cut.push([partition, before])
    },
  }
  const settled = [10_000, 500, 9_500, 10_000]
  const readings = settled.map((records, partition) => ({ partition, committed: ringIdsMax + records }))
  await trimDelivered(eventLog, 'deliveries', readings as PartitionReading[], silent)
  expect(cut).toEqual([[0, 10_000]])
})

test('a back-off with which a target falls behind at the measured rate is warned of once, until the file changes', () => {
  const lines: Record<string, unknown>[] = []
  const log = pino(
    { level: 'warn' },
    new Writable({ write: (line, _, next) => next(void lines.push(JSON.parse(String(line)))) }),
  )
  const load = new LoadWatch(log)
  const slow = targetOf({ name: 'slow', backoffMs: 2_000 })
  const quick = targetOf({ name: 'quick', backoffMs: 50 })
  for (const { name } of [slow, quick]) for (let n = 0; n < 2_400; n++) load.came(name, 1_000_000 + n * 50)
  load.look([slow, quick])
  load.look([slow, quick])
  expect(lines.map(({ target }) => target)).toEqual(['slow'])
  expect(lines[0]).toMatchObject({ level: 40, backoff_ms: 2_000, failed_share: 0.1 })
  load.renewed()
  load.look([{ ...slow, backoffMs: 100 }])
  expect(lines).toHaveLength(1)
  // Seen to fail seldom, it is stable.
  for (let n = 0; n < 500; n++) load.tried('slow', n % 100 === 0, 2)
  load.look([slow])
  expect(lines).toHaveLength(1)
})

test('a rate is not overestimated when the time of the records steps back behind the first of them', () => {
  const lines: string[] = []
  const log = pino({ level: 'warn' }, new Writable({ write: (line, _, next) => next(void lines.push(line)) }))
  const load = new LoadWatch(log)
  const calm = targetOf({ name: 'calm', backoffMs: 2_000 })
  for (let n = 0; n < 500; n++) load.came(calm.name, n === 0 ? 10_000_000 : 1_000_000 + n * 10_000)
  load.look([calm])
  expect(lines).toEqual([])
})
