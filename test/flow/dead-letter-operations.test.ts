/** What operators do with the dead letters of a topic: some are refused, and the others are treated all the same. */

import { describe, expect, test } from 'vitest'
import { done, park } from '#lib/outcome.ts'
import { recordLetters } from '#operations/record-letters.ts'
import type { Platform } from '#runtime/platform.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'

/** A compacted topic of the catalogue, whose records `b` and `c` were parked. */
const topic = 'vectors.commands'
const filter = { topic }

async function twoParked() {
  const log = createMemoryLog()
  const harness = await createHarness(log, { topic: testTopic(topic, 'compact') })
  let repaired = false
  await harness.startBatches({
    handle: async (messages) =>
      messages.map(({ key }) => (repaired || key === 'a' ? done : park(`${key} is bad`))),
  })
  await harness.add(0, [{ key: 'a' }, { key: 'b', value: { text: 'of b' } }, { key: 'c' }])
  await log.members[0]!.gain([0])
  await eventually('all are committed', () => log.commits.at(-1)?.offset === 3)
  repaired = true
  const { codec, publisher } = harness
  const context = {
    // The operations touch nothing else of a platform.
    platform: { engines: { eventLog: log }, codec, publisher } as unknown as Platform,
    output: { item() {}, progress() {} },
    signal: new AbortController().signal,
  }
  const keys = async (of: { topic?: string; key?: string } = filter) =>
    (await recordLetters.list.run(context, of)).dead_letters.map(({ recordKey }) => recordKey)
  return { log, harness, context, keys }
}

describe('the dead letters of a topic', () => {
  test('are listed by topic, record key or name, and shown with what they hold', async () => {
    const { context, keys } = await twoParked()
    expect(await keys()).toEqual(['b', 'c'])
    expect(await keys({ topic, key: 'c' })).toEqual(['c'])
    expect(await keys({ topic, key: 'workers/0/1' })).toEqual(['b'])
    const { dead_letters: shown } = await recordLetters.show.run(context, { topic, key: 'b' })
    expect(shown).toEqual([
      {
        topic,
        key: 'workers/0/1',
        group: 'workers',
        partition: 0,
        offset: 1,
        epoch: 1,
        recordKey: 'b',
        valueBytes: 15,
        headers: expect.objectContaining({ 'event-id': expect.any(String) }),
        reason: 'b is bad',
        attempts: 0,
        parkedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
        value: { text: 'of b' },
      },
    ])
  })

  test('are replayed but for one that a later record supersedes, which stays', async () => {
    const { log, harness, context, keys } = await twoParked()
    await harness.add(0, [{ key: 'b', id: 'later' }])
    const { results } = await recordLetters.replay.run(context, filter)
    expect(results).toEqual([
      { topic, key: 'workers/0/1', status: 'refused', code: 'superseded', message: expect.any(String) },
      { topic, key: 'workers/0/2', status: 'replayed', partition: 0, offset: 4 },
    ])
    expect(log.records(topic).at(-1)?.headers['replayed-from']).toBe(`${topic}/workers/0/2`)
    expect(await keys()).toEqual(['b'])
  })

  test('are not replayed any further when the log goes away', async () => {
    const { log, context, keys } = await twoParked()
    log.away = true
    await expect(recordLetters.replay.run(context, filter)).rejects.toMatchObject({ code: 'log_unavailable' })
    log.away = false
    expect(await keys()).toEqual(['b', 'c'])
  })

  test('are discarded together; where none is meant, the operation says so', async () => {
    const { log, context, keys } = await twoParked()
    const { results } = await recordLetters.discard.run(context, filter)
    expect(results).toEqual([
      { topic, key: 'workers/0/1', status: 'discarded' },
      { topic, key: 'workers/0/2', status: 'discarded' },
    ])
    expect(await keys()).toEqual([])
    expect(log.records(topic)).toHaveLength(3)
    for (const operation of [recordLetters.show, recordLetters.replay, recordLetters.discard]) {
      await expect(operation.run(context, filter)).rejects.toMatchObject({ code: 'dead_letter_not_found' })
    }
  })
})
