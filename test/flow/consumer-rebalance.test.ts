/** Partitions come and go: one lane never runs twice at once, a late owner commits nothing, nothing starts blindly. */

import { describe, expect, test } from 'vitest'
import { done, retry } from '#lib/outcome.ts'
import { ringIdsMax, windowOffsets } from '#runtime/consumer/limits.ts'
import { decodeMetadata, encodeMetadata } from '#runtime/consumer/metadata.ts'
import { createHarness, type Harness, testTopic } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog, type MemoryLog } from '#test/support/memory-log.ts'

const day = 86_400_000

async function started(cleanup: 'delete' | 'compact' = 'delete', uninitialised = false) {
  const log = createMemoryLog()
  const topic = testTopic(`work-${cleanup}`, cleanup)
  return { log, harness: await createHarness(log, { topic, partitions: 2, uninitialised }) }
}

/** Writes a commit of the group as if an earlier owner had. */
async function commitAs(
  log: MemoryLog,
  harness: Harness,
  offset: number,
  book: Partial<Parameters<typeof encodeMetadata>[1]>,
): Promise<void> {
  const metadata = encodeMetadata(
    { offset, finished: new Uint8Array(0), attempts: [] },
    { progressedAtMs: Date.now(), released: false, kills: 0, aloneUntil: 0, started: null, ...book },
  )
  await commitText(log, harness, offset, metadata)
}

async function commitText(log: MemoryLog, harness: Harness, offset: number, metadata: string): Promise<void> {
  const listener = { assigned: async () => new Map(), lost() {}, records() {}, misplaced() {} }
  const member = await log.consume({ group: 'workers', topic: harness.topic.name, listener })
  log.members.pop()
  await (member as MemoryLog['members'][number]).gain([0])
  expect(await member.commit(0, offset, metadata)).toBe('committed')
  await member.close()
}

const entries = (count: number, key = 'k') => Array.from({ length: count }, () => ({ key }))
const isCommitted = (log: MemoryLog, offset: number, partition = 0) =>
  log.commits.some((commit) => commit.partition === partition && commit.offset === offset)

describe('a rebalance', () => {
  test('in the middle of slow work never runs a lane twice at once, and the late owner commits nothing', async () => {
    const { log, harness } = await started()
    let running = 0
    let most = 0
    const calls: number[] = []
    const options = {
      callTimeoutMs: 400,
      async handle({ offset }: { offset: number }) {
        calls.push(offset)
        most = Math.max(most, ++running)
        // Does not heed its signal at once, as a call over a network may not.
        await new Promise((resolve) => setTimeout(resolve, 150))
        running--
        return done
      },
    }
    await harness.startLanes(options)
    await harness.startLanes(options)
    const [first, second] = log.members
    await harness.add(0, entries(1))
    await first!.gain([0])
    await eventually('the first works', () => running === 1)
    const before = log.commits.length
    first!.lose([0])
    await second!.gain([0], 'unknown')
    await eventually('the second has done it', () => isCommitted(log, 1))
    expect(most).toBe(1)
    expect(calls).toEqual([0, 0])
    expect(log.commits.slice(before).map((commit) => commit.offset)).toEqual([0, 1])
  })

  test('leaves kept partitions undisturbed, aborts the lost one and discards its outcome', async () => {
    const { log, harness } = await started()
    const signals = new Map<number, AbortSignal>()
    const go = Promise.withResolvers<void>()
    await harness.startBatches({
      callTimeoutMs: 60_000,
      async handle(messages, { signal, partition }) {
        signals.set(partition, signal)
        await go.promise
        return messages.map(() => done)
      },
    })
    await harness.add(0, entries(3))
    await harness.add(1, entries(3))
    await log.members[0]!.gain([0, 1])
    await eventually('both work', () => signals.size === 2)
    log.members[0]!.lose([0])
    expect(signals.get(0)!.aborted).toBe(true)
    expect(signals.get(1)!.aborted).toBe(false)
    go.resolve()
    await eventually('the kept one is committed', () => isCommitted(log, 3, 1))
    expect(isCommitted(log, 3, 0)).toBe(false)
  })

  test('that brings a partition back waits for the own old call to end', async () => {
    const { log, harness } = await started()
    let running = 0
    let most = 0
    const ends: (() => void)[] = []
    await harness.startBatches({
      callTimeoutMs: 60_000,
      async handle(messages) {
        most = Math.max(most, ++running)
        await new Promise<void>((resolve) => ends.push(resolve))
        running--
        return messages.map(() => done)
      },
    })
    await harness.add(0, entries(2))
    await log.members[0]!.gain([0])
    await eventually('it works', () => ends.length === 1)
    log.members[0]!.lose([0])
    await log.members[0]!.gain([0], 'none')
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(ends).toHaveLength(1)
    ends[0]!()
    await eventually('it works again', () => ends.length === 2)
    ends[1]!()
    await eventually('it is committed', () => isCommitted(log, 2))
    expect(most).toBe(1)
  })

  test('waits for the longest call of the former owner, unless that one released the partition', async () => {
    const { log, harness } = await started()
    const times: number[] = []
    const options = {
      callTimeoutMs: 300,
      async handle() {
        times.push(performance.now())
        return done
      },
    }
    const first = await harness.startLanes(options)
    await harness.add(0, entries(1))
    let since = performance.now()
    await log.members[0]!.gain([0], 'unknown')
    await eventually('an initial position has no former owner', () => isCommitted(log, 1))
    await first.close()
    await harness.startLanes(options)
    await harness.add(0, entries(1))
    since = performance.now()
    await log.members[1]!.gain([0], 'unknown')
    await eventually('the second has it', () => isCommitted(log, 2))
    expect(times[1]! - since).toBeLessThan(250)
    log.members[1]!.lose([0])
    await harness.add(0, entries(1))
    since = performance.now()
    await log.members[1]!.gain([0], 'unknown')
    await eventually('it waited', () => isCommitted(log, 3))
    expect(times[2]! - since).toBeGreaterThanOrEqual(290)
  })

  test('no call starts while the last heartbeat is too old', async () => {
    const { log, harness } = await started()
    let calls = 0
    await harness.startLanes({
      async handle() {
        calls++
        return done
      },
    })
    log.members[0]!.heard = false
    await harness.add(0, entries(3))
    await log.members[0]!.gain([0])
    await new Promise((resolve) => setTimeout(resolve, 80))
    expect(calls).toBe(0)
    log.members[0]!.heard = true
    await eventually('they are committed', () => isCommitted(log, 3))
  })

  test('a commit that answers again is repeated, one that answers lost ends the work', async () => {
    const { log, harness } = await started()
    let calls = 0
    const consumer = await harness.startBatches({
      batchRecordsMax: 1,
      async handle() {
        calls++
        return [done]
      },
    })
    log.members[0]!.answers.push('again', 'again')
    await harness.add(0, entries(1))
    await log.members[0]!.gain([0])
    await eventually('it is committed', () => isCommitted(log, 1))
    log.members[0]!.answers.push('lost')
    await harness.add(0, entries(5))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(calls).toBeLessThanOrEqual(3)
    expect(isCommitted(log, 2)).toBe(false)
    expect(consumer.state().inFlight).toBe(0)
  })
})

describe('a gained partition', () => {
  test('without a committed position stops with an alarm', async () => {
    const { log, harness } = await started('delete', true)
    const consumer = await harness.startBatches({ handle: async () => [] })
    await log.members[0]!.gain([0])
    expect(consumer.state().stopped).toEqual([{ partition: 0, why: 'no committed position' }])
    expect(harness.lines.some((line) => line.level === 50 && line.partition === 0)).toBe(true)
  })

  test.each([
    ['expired', 1, 5],
    ['beyond the end', 99, 0],
  ])('whose position is %s stops with an alarm', async (_, position, cut) => {
    const { log, harness } = await started()
    await harness.add(0, entries(10))
    await log.deleteRecords(harness.topic.name, 0, cut)
    await log.setPositions('workers', harness.topic.name, [{ partition: 0, offset: position }])
    const consumer = await harness.startLanes({ handle: async () => done })
    await log.members[0]!.gain([0])
    expect(consumer.state().stopped).toMatchObject([{ partition: 0 }])
    expect(consumer.state().stopped[0]!.why).toContain(`position ${position} lies outside of the log`)
  })

  test('starts where the service says, which wins over the commit and over a missing one', async () => {
    const { log, harness } = await started('compact', true)
    await harness.add(0, entries(10))
    const seen: number[] = []
    const asked: unknown[] = []
    let faults = 1
    await harness.startBatches({
      async onAssigned(partitions) {
        asked.push(partitions)
        if (faults-- > 0) throw new Error('the database is away')
        return new Map([[0, 7]])
      },
      async handle(messages) {
        seen.push(...messages.map((message) => message.offset))
        return messages.map(() => done)
      },
    })
    await log.members[0]!.gain([0])
    await eventually('it is committed', () => isCommitted(log, 10))
    expect(seen).toEqual([7, 8, 9])
    expect(asked).toEqual(Array(2).fill([{ partition: 0, committed: null }]))
  })

  test('stops when a compacted topic grew for 25 days without a commit; standing idle is no fault', async () => {
    const { log, harness } = await started('compact')
    const consumer = await harness.startBatches({ handle: async (messages) => messages.map(() => done) })
    await harness.add(0, entries(5))
    await commitAs(log, harness, 5, { progressedAtMs: Date.now() - 26 * day })
    await log.members[0]!.gain([0])
    expect(consumer.state().stopped).toEqual([])
    log.members[0]!.lose([0])
    await harness.add(0, entries(1))
    await log.members[0]!.gain([0])
    expect(consumer.state().stopped[0]!.why).toContain('nothing was committed for 26 days')
  })

  test('with metadata of an unknown format starts at its offset and says so', async () => {
    const { log, harness } = await started()
    await harness.add(0, entries(5))
    await commitText(log, harness, 3, 'x9.what is this')
    const seen: number[] = []
    await harness.startLanes({
      async handle({ offset }) {
        seen.push(offset)
        return done
      },
    })
    await log.members[0]!.gain([0])
    await eventually('it is committed', () => isCommitted(log, 5))
    expect(seen).toEqual([3, 4])
    expect(harness.lines.some((line) => String(line.msg).includes('unknown format'))).toBe(true)
  })

  test('reads at most 65,536 records back for their event ids, and handles none of them', async () => {
    const { log, harness } = await started()
    const total = ringIdsMax + 500
    await harness.add(
      0,
      Array.from({ length: total }, (_, n) => ({ id: `e${n}` })),
    )
    await commitAs(log, harness, total, { released: true })
    const seen: number[] = []
    await harness.startBatches({
      async handle(messages) {
        seen.push(...messages.map((message) => message.offset))
        return messages.map(() => done)
      },
    })
    await log.members[0]!.gain([0])
    await harness.add(0, [{ id: 'e600' }, { id: 'e499' }, { id: 'new' }])
    await eventually('it is committed', () => isCommitted(log, total + 3))
    expect(seen).toEqual([total + 1, total + 2])
  })
})

describe('a record that ends the process', () => {
  test('three times is run alone, announced by a commit; the fourth time it is parked', async () => {
    const { log, harness } = await started()
    await harness.add(0, entries(30))
    let killer = true
    const batches: number[][] = []
    const options = {
      batchRecordsMax: 10,
      async handle(messages: { offset: number }[]) {
        const offsets = messages.map((message) => message.offset)
        batches.push(offsets)
        // The process ends here: nothing of it is heard again.
        if (killer && offsets.includes(4)) await new Promise<never>(() => {})
        return messages.map(() => done)
      },
    }
    const lives = async () => {
      batches.length = 0
      await harness.startBatches({ ...options, callTimeoutMs: 600 })
      const member = log.members.at(-1)!
      await member.gain([0], 'none')
      return member
    }
    for (let kill = 1; kill <= 2; kill++) {
      // Taken over from an owner that never released it, as after a kill.
      if (kill === 1) await commitAs(log, harness, 0, {})
      const member = await lives()
      await eventually('the killer runs', () => batches.some((batch) => batch.includes(4)))
      expect(batches[0]).toHaveLength(10)
      member.lose([0])
    }
    const alone = await lives()
    await eventually('the killer runs alone', () => batches.some((batch) => batch.includes(4)))
    expect(batches).toEqual([[0], [1], [2], [3], [4]])
    const { offset, metadata } = log.commits.at(-1)!
    expect(offset).toBe(4)
    expect(decodeMetadata(metadata, offset)!.started).toBe(4)
    alone.lose([0])
    killer = false
    await lives()
    await eventually('all are committed', () => isCommitted(log, 30))
    expect(batches.flat()).toEqual(Array.from({ length: 25 }, (_, n) => n + 5))
    const letters = [...(await harness.deadLetters()).values()]
    expect(letters).toMatchObject([{ offset: 4 }])
    expect(letters[0]!.reason).toContain('ended the process 4 times')
  })

  test('in a lane, too: one lane at a time until what was in flight has proved itself', async () => {
    const { log, harness } = await started()
    await harness.add(
      0,
      Array.from({ length: 12 }, (_, n) => ({ key: `lane-${n}` })),
    )
    await commitAs(log, harness, 0, { kills: 2 })
    let running = 0
    let most = 0
    let tries = 0
    await harness.startLanes({
      async handle({ offset }) {
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, 1))
        running--
        return offset === 3 && tries++ < 2 ? retry('later') : done
      },
    })
    await log.members[0]!.gain([0])
    await eventually('all are committed', () => isCommitted(log, 12))
    expect(most).toBe(1)
    expect(decodeMetadata(log.commits.at(-1)!.metadata, 12)!.aloneUntil).toBe(windowOffsets)
    expect((await harness.deadLetters()).size).toBe(0)
  })
})

describe('a member', () => {
  test('that closes ends its calls, commits, marks the partitions released and leaves', async () => {
    const { log, harness } = await started()
    let ended = 0
    const consumer = await harness.startLanes({
      concurrency: 2,
      async handle() {
        await new Promise((resolve) => setTimeout(resolve, 60))
        ended++
        return done
      },
    })
    await harness.add(
      0,
      Array.from({ length: 10 }, (_, n) => ({ key: `lane-${n}` })),
    )
    await log.members[0]!.gain([0])
    await eventually('two run', () => consumer.state().inFlight === 2)
    await consumer.close()
    expect(ended).toBe(2)
    const { offset, metadata } = log.commits.at(-1)!
    expect(offset).toBe(2)
    expect(decodeMetadata(metadata, offset)!.released).toBe(true)
    await consumer.close()
  })

  test('that closes over a call that does not end does not claim to have released it', async () => {
    const { log, harness } = await started()
    let aborted = false
    const consumer = await harness.startBatches({
      callTimeoutMs: 60,
      async handle(_messages, { signal }) {
        signal.addEventListener('abort', () => {
          aborted = true
        })
        return new Promise<never>(() => {})
      },
    })
    await harness.add(0, entries(1))
    await log.members[0]!.gain([0])
    await eventually('it runs', () => consumer.state().inFlight === 1)
    await consumer.close()
    expect(aborted).toBe(true)
    const { offset, metadata } = log.commits.at(-1)!
    expect(offset).toBe(0)
    expect(decodeMetadata(metadata, offset)!.released).toBe(false)
  })

  test('that is paused starts no call and fetches nothing until it is resumed', async () => {
    const { log, harness } = await started()
    let calls = 0
    const consumer = await harness.startBatches({
      async handle(messages) {
        calls += messages.length
        return messages.map(() => done)
      },
    })
    await log.members[0]!.gain([0])
    consumer.pause()
    await harness.add(0, entries(5))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(calls).toBe(0)
    expect([...log.members[0]!.paused]).toEqual([0])
    consumer.resume()
    await eventually('all are committed', () => isCommitted(log, 5))
  })

  test('stops fetching while its handler is slow, and goes on when there is room', async () => {
    const { log, harness } = await started()
    const go = Promise.withResolvers<void>()
    await harness.startBatches({
      callTimeoutMs: 60_000,
      batchRecordsMax: 1_000,
      async handle(messages) {
        await go.promise
        return messages.map(() => done)
      },
    })
    const total = 80_000
    await harness.add(0, entries(total))
    await log.members[0]!.gain([0])
    await eventually('it pauses', () => log.members[0]!.paused.has(0))
    expect(log.members[0]!.delivered).toBeLessThan(40_000)
    go.resolve()
    await eventually('all are committed', () => isCommitted(log, total))
  })
})
