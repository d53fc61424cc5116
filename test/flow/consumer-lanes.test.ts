/** Lane mode: a waiting lane holds up no other, and finished work is never repeated. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { done, park, retry } from '#lib/outcome.ts'
import { retryingLanesMax, windowOffsets } from '#runtime/consume/limits.ts'
import { decodeMetadata } from '#runtime/consume/metadata.ts'
import { createHarness } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog, type MemoryLog } from '#test/support/memory-log.ts'

async function started(partitions = 1) {
  const log = createMemoryLog()
  return { log, harness: await createHarness(log, { partitions }) }
}

const lastCommit = (log: MemoryLog, partition = 0) =>
  log.commits.findLast((commit) => commit.partition === partition) ?? { offset: 0, metadata: '' }
const lastSaved = (log: MemoryLog) => decodeMetadata(lastCommit(log).metadata, lastCommit(log).offset)!
const keyed = (keys: string[]) => keys.map((key) => ({ key }))

describe('lane mode', () => {
  test('records of a lane run in order and one at a time, lanes side by side up to the concurrency', async () => {
    const { log, harness } = await started()
    const seen = new Map<string, number[]>()
    const running = new Set<string>()
    let most = 0
    await harness.startLanes({
      concurrency: 4,
      async handle({ key, offset }) {
        expect(running.has(key)).toBe(false)
        running.add(key)
        most = Math.max(most, running.size)
        await new Promise((resolve) => setTimeout(resolve, 1))
        running.delete(key)
        seen.set(key, [...(seen.get(key) ?? []), offset])
        return done
      },
    })
    await harness.add(0, keyed(Array.from({ length: 300 }, (_, n) => `lane-${(n * 7) % 11}`)))
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === 300)
    for (const offsets of seen.values()) expect(offsets).toEqual(offsets.toSorted((a, b) => a - b))
    expect(most).toBe(4)
  })

  test('a lane that hangs delays no other lane while the window lasts, and no other partition ever', async () => {
    const { log, harness } = await started(2)
    const stuck = Promise.withResolvers<void>()
    let others = 0
    let elsewhere = 0
    await harness.startLanes({
      callTimeoutMs: 600_000,
      async handle({ key, partition }) {
        if (key === 'slow') await stuck.promise
        else if (partition === 0) others++
        else elsewhere++
        return done
      },
    })
    const many = Array.from({ length: windowOffsets + 500 }, (_, n) =>
      n % 3 === 0 ? 'slow' : `lane-${n % 50}`,
    )
    await harness.add(0, keyed(many))
    await harness.add(1, keyed(many.map(() => 'quick')))
    await log.members[0]!.gain([0, 1])
    const inWindow = many.slice(0, windowOffsets).filter((key) => key !== 'slow').length
    await eventually('the window is used up', () => others === inWindow)
    await eventually('the other partition is through', () => lastCommit(log, 1).offset === many.length)
    expect(elsewhere).toBe(many.length)
    await eventually('settled records are saved', () => lastSaved(log).settled.size === inWindow)
    stuck.resolve()
    await eventually('all are committed', () => lastCommit(log, 0).offset === many.length)
    expect(others).toBe(many.filter((key) => key !== 'slow').length)
  })

  test('a lane that waits for its next try holds no slot', async () => {
    const { log, harness } = await started()
    let through = 0
    await harness.startLanes({
      concurrency: 2,
      retriesMax: 10,
      async handle({ key }) {
        if (key.startsWith('bad')) return retry('come back', 3_600_000)
        through++
        return done
      },
    })
    await harness.add(
      0,
      keyed(['bad-1', 'bad-2', 'bad-3', ...Array.from({ length: 50 }, (_, n) => `good-${n}`)]),
    )
    await log.members[0]!.gain([0])
    await eventually('the others are through', () => through === 50)
    await eventually('so says the commit', () => lastSaved(log).settled.size === 50)
    expect(lastCommit(log).offset).toBe(0)
    expect([...lastSaved(log).attempts].map(([offset, { count }]) => [offset, count])).toEqual([
      [0, 1],
      [1, 1],
      [2, 1],
    ])
  })

  test('a restart neither repeats settled records nor forgets attempts', async () => {
    const { log, harness } = await started()
    const calls: string[] = []
    const consumer = await harness.startLanes({
      retriesMax: 3,
      async handle({ key, offset }, { attempt }) {
        calls.push(`${key}${offset}#${attempt}`)
        return key === 'bad' ? retry('later', attempt === 2 ? 3_600_000 : 1) : done
      },
    })
    await harness.add(0, keyed(['a', 'bad', 'b', 'bad', 'c']))
    await log.members[0]!.gain([0])
    await eventually('two tries were made', () => lastSaved(log).attempts.get(1)?.count === 2)
    await consumer.close()
    expect(lastSaved(log)).toMatchObject({ released: true })
    calls.length = 0
    await harness.startLanes({
      retriesMax: 3,
      async handle({ key, offset }, { attempt }) {
        calls.push(`${key}${offset}#${attempt}`)
        return key === 'bad' && offset === 1 ? retry('later', 1) : done
      },
    })
    await log.members[1]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === 5)
    expect(calls).toEqual(['bad1#3', 'bad1#4', 'bad3#1'])
    expect([...(await harness.deadLetters()).values()]).toMatchObject([
      { offset: 1, attempts: 4, reason: 'later' },
    ])
  })

  test('at most 256 lanes retry at once; the rest waits with its first try counted', async () => {
    const { log, harness } = await started()
    const attempts = new Map<string, number>()
    let healed = false
    await harness.startLanes({
      concurrency: 64,
      retriesMax: 1_000,
      async handle({ key }, { attempt }) {
        attempts.set(key, attempt)
        return healed ? done : retry('ill', 2)
      },
    })
    const total = retryingLanesMax + 100
    await harness.add(0, keyed(Array.from({ length: total }, (_, n) => `lane-${n}`)))
    await log.members[0]!.gain([0])
    await eventually(
      'the first ones retry',
      () =>
        attempts.size === total && [...attempts.values()].filter((n) => n >= 3).length === retryingLanesMax,
    )
    expect([...attempts.values()].filter((n) => n === 1)).toHaveLength(100)
    await eventually('their tries are kept', () => lastSaved(log).attempts.size === retryingLanesMax)
    healed = true
    await eventually('all are committed', () => lastCommit(log).offset === total)
    expect([...attempts.values()].every((n) => n >= 2)).toBe(true)
  })

  test('parks poison with its reason and goes on with the next record of the lane', async () => {
    const { log, harness } = await started()
    const through: number[] = []
    await harness.startLanes({
      async handle({ offset }) {
        if (offset === 1) return park('refused')
        if (offset === 2) throw new RangeError('always')
        through.push(offset)
        return done
      },
    })
    await harness.add(0, [{}, {}, {}, { value: { poison: true } }, {}])
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === 5)
    expect(through).toEqual([0, 4])
    expect(
      [...(await harness.deadLetters()).values()].map(({ offset, reason, attempts }) => ({
        offset,
        reason,
        attempts,
      })),
    ).toEqual([
      { offset: 1, reason: 'refused', attempts: 0 },
      { offset: 2, reason: 'RangeError: always', attempts: 3 },
      { offset: 3, reason: 'it cannot be decoded: Error: these bytes are no message', attempts: 0 },
    ])
  })

  test('what waits in one lane holds up others only once it fills the memory of lanes, and keeps its order', async () => {
    const { log, harness } = await started(64)
    const stuck = Promise.withResolvers<void>()
    const seen: number[] = []
    let others = 0
    await harness.startLanes({
      callTimeoutMs: 600_000,
      async handle({ key, offset, value }) {
        if (key === 'other') {
          others++
          return done
        }
        if (offset === 0) await stuck.promise
        expect((value as unknown as { text: string }).text).toHaveLength(20_000)
        seen.push(offset)
        return done
      },
    })
    // 64 partitions: the share of each is 1.97 MiB, and three quarters of it are for lanes: 74 records of the slow one.
    const text = 'x'.repeat(20_000)
    const total = 400
    for (let n = 0; n < total; n++)
      await harness.add(0, [n % 4 === 3 ? { key: 'other' } : { key: 'slow', value: { text } }])
    await log.members[0]!.gain(Array.from({ length: 64 }, (_, n) => n))
    await eventually('the other lane goes on as long as there is room', () => others >= 20)
    expect(others).toBeLessThan(30)
    stuck.resolve()
    await eventually('all are committed', () => lastCommit(log).offset === total)
    expect(seen).toEqual(Array.from({ length: total }, (_, n) => n).filter((n) => n % 4 !== 3))
    expect([others, log.members[0]!.delivered]).toEqual([total / 4, total])
  })

  test('records larger than all memory of their lanes come through, one after the other', async () => {
    const { log, harness } = await started(64)
    const seen: number[] = []
    await harness.startLanes({
      async handle({ offset }) {
        seen.push(offset)
        return done
      },
    })
    const value = { text: 'x'.repeat(2_500_000) }
    for (const key of ['a', 'b', 'a']) await harness.add(0, [{ key, value }])
    await log.members[0]!.gain(Array.from({ length: 64 }, (_, n) => n))
    await eventually('all are committed', () => lastCommit(log).offset === 3)
    expect(seen).toEqual([0, 1, 2])
  })

  test('handlers that wait for nothing leave the event loop its turns', async () => {
    const { log, harness } = await started()
    let handled = 0
    let turnsMeanwhile = 0
    const total = 300
    const turning = setInterval(() => {
      if (handled > 0 && handled < total) turnsMeanwhile++
    }, 1)
    onTestFinished(() => clearInterval(turning))
    await harness.startLanes({
      concurrency: 64,
      async handle() {
        const end = performance.now() + 1
        while (performance.now() < end);
        handled++
        return done
      },
    })
    await harness.add(
      0,
      Array.from({ length: total }, (_, n) => ({ key: `lane-${n}` })),
    )
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === total)
    expect(turnsMeanwhile).toBeGreaterThan(total / 20)
  })

  test('lanes of the message, not of the key, when the service says so', async () => {
    const { log, harness } = await started()
    const running = new Set<unknown>()
    let through = 0
    await harness.startLanes({
      lane: (message) => (message.value as unknown as { target: string }).target,
      async handle(message) {
        const { target } = message.value as unknown as { target: string }
        expect(running.has(target)).toBe(false)
        running.add(target)
        await new Promise((resolve) => setImmediate(resolve))
        running.delete(target)
        through++
        return done
      },
    })
    await harness.add(
      0,
      Array.from({ length: 60 }, (_, n) => ({ key: `k${n}`, value: { target: `t${n % 5}` } })),
    )
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => lastCommit(log).offset === 60)
    expect(through).toBe(60)
  })
})
