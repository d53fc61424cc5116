/** Partitions come and go: one lane never runs twice at once, a late owner commits nothing, nothing starts blindly. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { sleep } from '#lib/backoff.ts'
import { done } from '#lib/outcome.ts'
import { ringIdsMax } from '#runtime/consume/limits.ts'
import { commitAs, commitText, entries, isCommitted, started } from '#test/support/consumer-commits.ts'
import { createHarness } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'

const day = 86_400_000
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n)

describe('a rebalance', () => {
  /** Two members that note their calls; the first has done records 1 to 3, and is at work on record 0. */
  async function handingOver(callMs: number) {
    const { log, harness } = await started()
    const calls: number[] = []
    const options = {
      callTimeoutMs: 600_000,
      async handle({ offset }: { offset: number }, { signal }: { signal: AbortSignal }) {
        calls.push(offset)
        if (offset === 0 && calls.filter((one) => one === 0).length === 1) await sleep(callMs, signal)
        signal.throwIfAborted()
        return done
      },
    }
    await harness.startLanes(options)
    await harness.startLanes(options)
    const [first, second] = log.members
    await harness.add(
      0,
      range(0, 4).map((n) => ({ key: `lane-${n}` })),
    )
    await first!.gain([0])
    await eventually('the others are done', () => calls.length === 4)
    return { log, calls, first: first!, second: second! }
  }

  test('that moves a partition lets its calls end, commits what they did, and repeats nothing', async () => {
    const { log, calls, first, second } = await handingOver(150)
    await first.handOver([0])
    expect(isCommitted(log, 4)).toBe(true)
    await second.gain([0])
    await sleep(50)
    expect(calls.toSorted()).toEqual([0, 1, 2, 3])
  })

  test('that moves a partition aborts a call that takes long, and the next owner repeats that one alone', async () => {
    const { log, calls, first, second } = await handingOver(60_000)
    await first.handOver([0])
    await second.gain([0])
    await eventually('it is committed', () => isCommitted(log, 4))
    expect(calls.toSorted()).toEqual([0, 0, 1, 2, 3])
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
    await log.members[0]!.gain([0])
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(ends).toHaveLength(1)
    ends[0]!()
    await eventually('it works again', () => ends.length === 2)
    ends[1]!()
    await eventually('it is committed', () => isCommitted(log, 2))
    expect(most).toBe(1)
  })

  test('does not wait for a call that the former owner still runs, and lets it commit nothing', async () => {
    const { log, harness } = await started()
    const calls: (() => void)[] = []
    const options = {
      callTimeoutMs: 600_000,
      handle: () =>
        new Promise<typeof done>((resolve) => {
          calls.push(() => resolve(done))
        }),
    }
    await harness.startLanes(options)
    await harness.startLanes(options)
    const [first, second] = log.members
    await harness.add(0, entries(1))
    await first!.gain([0])
    await eventually('the first works', () => calls.length === 1)
    first!.lose([0])
    await second!.gain([0])
    await eventually('the second works, long before the longest call is over', () => calls.length === 2)
    const before = log.commits.length
    calls[0]!()
    await sleep(30)
    expect(log.commits).toHaveLength(before)
    calls[1]!()
    await eventually('the second has done it', () => isCommitted(log, 1))
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

  /** A group that committed offset 5 of a compacted topic 26 days ago, and later records. */
  async function longAgo(handedOver?: number) {
    const { log, harness } = await started('compact')
    const seen: number[] = []
    const consumer = await harness.startBatches({
      ...(handedOver === undefined ? {} : { onAssigned: async () => new Map([[0, handedOver]]) }),
      async handle(messages) {
        seen.push(...messages.map((message) => message.offset))
        return messages.map(() => done)
      },
    })
    await harness.add(0, entries(5))
    await commitAs(log, harness, 5, { progressedAtMs: Date.now() - 26 * day })
    const writtenDaysAgo = async (...days: number[]) => {
      await harness.add(0, entries(days.length))
      const records = log.records(harness.topic.name).slice(-days.length)
      for (const [n, record] of records.entries()) record.timestamp = Date.now() - days[n]! * day
    }
    return { log, harness, consumer, seen, writtenDaysAgo }
  }

  test('stops when the group made no progress for 25 days and its unread records are older', async () => {
    const { log, consumer, seen, writtenDaysAgo } = await longAgo()
    await writtenDaysAgo(25.5, 0)
    await log.members[0]!.gain([0])
    await eventually('it stopped', () => consumer.state().stopped.length === 1)
    expect(consumer.state().stopped[0]!.why).toContain('nothing was committed for 26 days')
    expect(seen).toEqual([])
  })

  test('stops when something is gone of what the group has not seen for 25 days', async () => {
    const { log, harness, consumer, writtenDaysAgo } = await longAgo()
    await writtenDaysAgo(25.5, 0)
    log.remove(harness.topic.name, 0, [5])
    await log.members[0]!.gain([0])
    await eventually('it stopped', () => consumer.state().stopped.length === 1)
  })

  test('goes on when the group made no progress for 25 days because nothing happened', async () => {
    const { log, consumer, seen, writtenDaysAgo } = await longAgo()
    await log.members[0]!.gain([0])
    log.members[0]!.lose([0])
    await writtenDaysAgo(24, 0)
    await log.members[0]!.gain([0])
    await eventually('it is committed', () => isCommitted(log, 7))
    expect(seen).toEqual([5, 6])
    expect(consumer.state().stopped).toEqual([])
  })

  test.each([2, 6])(
    'goes on at %i, which the service hands over, when the group has seen or skips the rest',
    async (position) => {
      const { log, consumer, seen, writtenDaysAgo } = await longAgo(position)
      if (position === 6) await writtenDaysAgo(25.5, 0)
      await log.members[0]!.gain([0])
      const end = position === 6 ? 7 : 5
      await eventually('it is through', () => seen.at(-1) === end - 1)
      expect(seen[0]).toBe(position)
      expect(consumer.state().stopped).toEqual([])
    },
  )

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
    expect(harness.lines.some((line) => line.msg === 'consumer.unknown-metadata')).toBe(true)
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

  test('goes on when what it reads back for the event ids expires meanwhile', async () => {
    const log = await openEmbeddedLog({ directory: temporaryFolder() })
    onTestFinished(() => log.close())
    const harness = await createHarness(log)
    const seen: number[] = []
    const options = {
      async handle(messages: { offset: number }[]) {
        seen.push(...messages.map((message) => message.offset))
        return messages.map(() => done)
      },
    }
    await harness.add(0, entries(10))
    const first = await harness.startBatches(options)
    await eventually('all are handled', () => seen.length === 10)
    await first.close()
    const consume = log.consume.bind(log)
    log.consume = (given) => {
      const assigned: typeof given.listener.assigned = async (gained) => {
        const starts = await given.listener.assigned(gained)
        await log.deleteRecords(harness.topic.name, 0, 3)
        return starts
      }
      return consume({ ...given, listener: { ...given.listener, assigned } })
    }
    const second = await harness.startBatches(options)
    await harness.add(0, entries(1))
    await eventually('the new one is handled', () => seen.at(-1) === 10)
    expect(second.state().stopped).toEqual([])
  })
})
