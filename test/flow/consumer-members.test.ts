/** Members that end: by a record that kills the process, by a drain, or for a while by a pause. */

import { describe, expect, test } from 'vitest'
import { done, retry } from '#lib/outcome.ts'
import { windowOffsets } from '#runtime/consume/limits.ts'
import { decodeMetadata } from '#runtime/consume/metadata.ts'
import { commitAs, entries, isCommitted, started } from '#test/support/consumer-commits.ts'
import { eventually } from '#test/support/eventually.ts'

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
        // The process ends here: it sends nothing more.
        if (killer && offsets.includes(4)) await new Promise<never>(() => {})
        return messages.map(() => done)
      },
    }
    const lives = async () => {
      batches.length = 0
      log.clientId = `process-${log.members.length}`
      await harness.startBatches({ ...options, callTimeoutMs: 600 })
      const member = log.members.at(-1)!
      await member.gain([0])
      return member
    }
    for (let kill = 1; kill <= 2; kill++) {
      // Taken over from an owner that never released it, as after a kill.
      if (kill === 1) await commitAs(log, harness, 0, {})
      const member = await lives()
      await eventually('the killer runs', () => batches.some((batch) => batch.includes(4)))
      expect(batches[0]).toHaveLength(10)
      member.die()
    }
    const alone = await lives()
    await eventually('the killer runs alone', () => batches.some((batch) => batch.includes(4)))
    expect(batches).toEqual([[0], [1], [2], [3], [4]])
    const { offset, metadata } = log.commits.at(-1)!
    expect(offset).toBe(4)
    expect(decodeMetadata(metadata, offset)!.isolated).toBe(4)
    alone.die()
    killer = false
    await lives()
    await eventually('all are committed', () => isCommitted(log, 30))
    expect(batches.flat()).toEqual(Array.from({ length: 25 }, (_, n) => n + 5))
    const letters = [...(await harness.deadLetters()).values()]
    expect(letters).toMatchObject([{ offset: 4 }])
    expect(letters[0]!.reason).toContain('ended the process 4 times')
  })

  test('in a lane, too: one lane at a time until the records in flight have proved themselves', async () => {
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
    expect(decodeMetadata(log.commits.at(-1)!.metadata, 12)!.isolatedUntil).toBe(windowOffsets)
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
    const total = 30_000
    await harness.add(0, entries(total))
    await log.members[0]!.gain([0])
    await eventually('it pauses', () => log.members[0]!.paused.has(0))
    expect(log.members[0]!.delivered).toBeLessThan(10_000)
    go.resolve()
    await eventually('all are committed', () => isCommitted(log, total))
  })
})
