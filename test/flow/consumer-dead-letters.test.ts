/** The life of a dead letter: parked, listed, shown, replayed as it was, or discarded; never over a later record. */

import { describe, expect, test } from 'vitest'
import { done, park as parkOutcome } from '#lib/outcome.ts'
import { replayDeadLetter } from '#runtime/consume/dead-letter-replay.ts'
import {
  type DeadLetterParts,
  listDeadLetters,
  park,
  removeDeadLetters,
} from '#runtime/consume/dead-letters.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
import { readDeadLetter } from '#test/support/dead-letters.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'

/** A consumer that parks what says `bad`, and three records of which the second is bad. */
async function parkedOnce(cleanup: 'delete' | 'compact') {
  const log = createMemoryLog()
  const harness = await createHarness(log, { topic: testTopic('letters', cleanup) })
  const handled: { offset: number; headers: Record<string, string>; value: unknown }[] = []
  let repaired = false
  await harness.startBatches({
    async handle(messages) {
      return messages.map(({ offset, headers, value }) => {
        if (!repaired && (value as unknown as { bad?: boolean } | null)?.bad) return parkOutcome('it is bad')
        handled.push({ offset, headers, value })
        return done
      })
    },
  })
  await harness.add(0, [{ key: 'a' }, { key: 'b', value: { bad: true }, id: 'event-of-b' }, { key: 'c' }])
  await log.members[0]!.gain([0])
  await eventually('all are committed', () => log.commits.at(-1)?.offset === 3)
  const topics = [harness.topic]
  const name = { topic: 'letters', key: 'workers/0/1' }
  const repair = () => {
    repaired = true
  }
  return { log, harness, handled, repair, name, dependencies: { ...harness, topics } }
}

async function replay(dependencies: DeadLetterParts, name: { topic: string; key: string }) {
  return replayDeadLetter(dependencies, await readDeadLetter(dependencies, name))
}

describe('a dead letter', () => {
  test('is listed and shown with the record as it was, the reason and the attempts', async () => {
    const { dependencies, name } = await parkedOnce('delete')
    const [listed, ...more] = await listDeadLetters(dependencies)
    expect(more).toEqual([])
    expect(listed).toMatchObject({
      ...name,
      group: 'workers',
      partition: 0,
      offset: 1,
      recordKey: 'b',
      valueBytes: 12,
      headers: { 'event-id': 'event-of-b' },
      reason: 'it is bad',
      attempts: 0,
    })
    expect(listed).not.toHaveProperty('value')
    expect((await readDeadLetter(dependencies, name)).value).toEqual(Buffer.from('{"bad":true}'))
    expect(await listDeadLetters(dependencies, { topic: 'letters', key: 'b' })).toHaveLength(1)
    expect(await listDeadLetters(dependencies, { topic: 'letters', key: 'workers/0/1' })).toHaveLength(1)
    expect(await listDeadLetters(dependencies, { topic: 'letters', key: 'a' })).toEqual([])
    await expect(listDeadLetters(dependencies, { topic: 'nothing' })).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('is replayed as it was under a new event id, and is gone then', async () => {
    const { log, dependencies, name, handled, repair } = await parkedOnce('delete')
    repair()
    expect(await replay(dependencies, name)).toEqual({ partition: 0, offset: 3 })
    await eventually('it is handled', () => log.commits.at(-1)?.offset === 4)
    const { headers, value } = handled.at(-1)!
    expect(value).toEqual({ bad: true })
    expect(headers['replayed-from']).toBe('letters/workers/0/1')
    expect(headers['event-id']).not.toBe('event-of-b')
    expect(await listDeadLetters(dependencies)).toEqual([])
    await expect(replay(dependencies, name)).rejects.toThrow('no such dead letter')
    expect(log.records('letters.dead-letters').at(-1)!.value).toBeNull()
  })

  test('is discarded by a tombstone', async () => {
    const { dependencies, name, log } = await parkedOnce('delete')
    const letter = await readDeadLetter(dependencies, name)
    await removeDeadLetters(dependencies, name.topic, [letter])
    expect(await listDeadLetters(dependencies)).toEqual([])
    expect(log.records('letters')).toHaveLength(3)
    await expect(readDeadLetter(dependencies, name)).rejects.toThrow('no such dead letter')
  })

  test('of a compacted topic is replayed while nothing later has its key; its own second copy is no later record', async () => {
    const { dependencies, name, harness, log, repair } = await parkedOnce('compact')
    repair()
    await harness.add(0, [{ key: 'b', value: { bad: true }, id: 'event-of-b' }, { key: 'c' }])
    expect(await replay(dependencies, name)).toEqual({ partition: 0, offset: 5 })
    expect(log.records('letters').at(-1)).toMatchObject({
      key: Buffer.from('b'),
      value: Buffer.from('{"bad":true}'),
    })
  })

  test('of a compacted topic is refused when its key has a later record, a deletion included', async () => {
    const { dependencies, name, harness, log } = await parkedOnce('compact')
    await log.append('letters', 0, [{ key: Buffer.from('b'), value: null, headers: { 'event-id': 'later' } }])
    await harness.add(0, [{ key: 'z' }])
    await expect(replay(dependencies, name)).rejects.toMatchObject({
      code: 'superseded',
      statusCode: 409,
    })
    expect(log.records('letters')).toHaveLength(5)
    expect(await listDeadLetters(dependencies)).toHaveLength(1)
  })

  test('yields to a record of its key that is written at the same moment', async () => {
    const { dependencies, name, log } = await parkedOnce('compact')
    const append = log.append
    let interfered = false
    log.append = async (topic, partition, records, options) => {
      if (!interfered) {
        interfered = true
        const newer = {
          key: Buffer.from('b'),
          value: Buffer.from('{"n":2}'),
          headers: { 'event-id': 'newer' },
        }
        await append(topic, partition, [newer])
      }
      return append(topic, partition, records, options)
    }
    await expect(replay(dependencies, name)).rejects.toMatchObject({ code: 'superseded' })
    const last = log.records('letters').findLast((record) => record.key?.toString() === 'b')!
    expect(last.value).toEqual(Buffer.from('{"n":2}'))
    expect(last.headers['event-id']).toBe('newer')
  })

  test('of an earlier epoch stays when a record at the same place is parked after its topic was grown', async () => {
    const { dependencies, name, harness, log } = await parkedOnce('delete')
    const { publisher, topic } = harness
    const grown = {
      ...publisher,
      locationOf: () => ({ ...publisher.locationOf(topic), epoch: 2 }),
    }
    const later = { ...log.records('letters')[2]!, offset: 1 }
    const parking = { group: 'workers', topic, publisher: grown, log: harness.log }
    await park(
      [{ record: later, reason: 'it is as bad', attempts: 0 }],
      parking,
      new AbortController().signal,
    )
    const listed = await listDeadLetters(dependencies)
    expect(listed.map(({ key, recordKey, epoch }) => [key, recordKey, epoch])).toEqual([
      ['workers/0/1', 'b', 1],
      ['workers/0/1/2', 'c', 2],
    ])
    await removeDeadLetters(dependencies, name.topic, [listed[1]!])
    expect((await listDeadLetters(dependencies)).map(({ key }) => key)).toEqual(['workers/0/1'])
    await removeDeadLetters(dependencies, name.topic, [listed[0]!])
    expect(await listDeadLetters(dependencies)).toEqual([])
  })
})
