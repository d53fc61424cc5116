/** Partitions come and go: one lane never runs twice at once, a late owner commits nothing, nothing starts blindly. */

import { describe, expect, test } from 'vitest'
import { done } from '#lib/outcome.ts'
import { ringIdsMax } from '#runtime/consumer/limits.ts'
import { commitAs, commitText, entries, isCommitted, started } from '#test/support/consumer-commits.ts'
import { eventually } from '#test/support/eventually.ts'

const day = 86_400_000

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
    await harness.startLanes(options)
    log.members[1]!.lose([0])
    await harness.add(0, entries(1))
    since = performance.now()
    await log.members[2]!.gain([0], 'unknown')
    await eventually('it waited', () => isCommitted(log, 3))
    expect(times[2]! - since).toBeGreaterThanOrEqual(290)
  })

  test('does not wait for a former owner that was the member itself, as the last commit tells', async () => {
    const { log, harness } = await started()
    let calls = 0
    await harness.startLanes({
      callTimeoutMs: 600_000,
      async handle() {
        calls++
        return done
      },
    })
    await harness.add(0, entries(1))
    await log.members[0]!.gain([0], 'unknown')
    await eventually('the first is done', () => isCommitted(log, 1))
    log.members[0]!.lose([0])
    await harness.add(0, entries(1))
    await log.members[0]!.gain([0], 'unknown')
    await eventually('the second is done, long before the longest call is over', () => isCommitted(log, 2))
    expect(calls).toBe(2)
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
    log.members[0]!.connected = false
    await harness.add(0, entries(3))
    await log.members[0]!.gain([0])
    await new Promise((resolve) => setTimeout(resolve, 80))
    expect(calls).toBe(0)
    log.members[0]!.connected = true
    await eventually('they are committed', () => isCommitted(log, 3))
  })

  test('a commit that answers again is repeated, one that answers lost ends the work', async () => {
    const { log, harness } = await started()
    const consumer = await harness.startBatches({
      batchRecordsMax: 1,
      async handle() {
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
