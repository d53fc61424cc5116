/** Operators and the dead letters of a topic: when some are refused, the others are treated all the same. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { done, park } from '#lib/outcome.ts'
import { recordLetters } from '#operations/dead-letters/actions.ts'
import { deadLetterParts } from '#operations/dead-letters/letters.ts'
import { listRecordLetters } from '#operations/dead-letters/records.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { listAdminActions } from '#services/access/admin-audit/admin-audit.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
import { openControlPlane } from '#test/support/control-plane.ts'
import { eventually } from '#test/support/eventually.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { operating } from '#test/support/operator.ts'
import { silentLog } from '#test/support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

const newestAction = async () => (await listAdminActions(relational, { limit: 1 })).actions[0]!

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
  // The operations touch nothing else of a platform.
  const engines = { eventLog: log, relational }
  const parts = { engines, codec, publisher, instanceId: 'test', log: silentLog }
  const context = operating(parts as unknown as Platform)
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
    const { results } = await recordLetters.replay.run(context, { filter })
    expect(results).toEqual([
      { topic, key: 'workers/0/1', status: 'refused', code: 'superseded', message: expect.any(String) },
      { topic, key: 'workers/0/2', status: 'replayed', partition: 0, offset: 4 },
    ])
    expect(log.records(topic).at(-1)?.headers['replayed-from']).toBe(`${topic}/workers/0/2`)
    expect(await keys()).toEqual(['b'])
    expect(await newestAction()).toMatchObject({
      actor: { kind: 'command_line', id: 'tester' },
      action: 'dead-letters.replay',
      target: topic,
      outcome: 'done',
      count: 1,
      after: { results, refused: 1 },
    })
  })

  test('are replayed once, also when two ask at the same time', async () => {
    const { log, context, keys } = await twoParked()
    const names = [{ topic, key: 'workers/0/1' }]
    const before = log.records(topic).length
    const asked = await Promise.allSettled(
      [1, 2].map(() => recordLetters.replay.run(context, { ids: names })),
    )
    expect(asked.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const refusal = asked.find((one) => one.status === 'rejected')
    expect(refusal?.reason).toMatchObject({ code: 'dead_letter_not_found' })
    expect(log.records(topic)).toHaveLength(before + 1)
    expect(await keys()).toEqual(['c'])
  })

  test('are listed by their names and their group', async () => {
    const { context } = await twoParked()
    const parts = deadLetterParts(context.platform)
    const listed = async (filter: Parameters<typeof listRecordLetters>[1]) =>
      (await listRecordLetters(parts, filter)).map(({ recordKey }) => recordKey)
    expect(
      await listed({
        names: [
          { topic, key: 'workers/0/2' },
          { topic, key: 'workers/0/9' },
        ],
      }),
    ).toEqual(['c'])
    expect(await listed({ names: [] })).toEqual([])
    expect(await listed({ topic, group: 'workers' })).toEqual(['b', 'c'])
    expect(await listed({ topic, group: 'others' })).toEqual([])
  })

  test('are not replayed any further when the log goes away', async () => {
    const { log, context, keys } = await twoParked()
    log.away = true
    await expect(recordLetters.replay.run(context, { filter })).rejects.toMatchObject({
      code: 'log_unavailable',
    })
    log.away = false
    expect(await keys()).toEqual(['b', 'c'])
    expect(await newestAction()).toMatchObject({ outcome: 'failed', reason: 'log_unavailable' })
  })

  test('are discarded together; where none is meant, the operation says so', async () => {
    const { log, context, keys } = await twoParked()
    const { results } = await recordLetters.discard.run(context, { filter })
    expect(results).toEqual([
      { topic, key: 'workers/0/1', status: 'discarded' },
      { topic, key: 'workers/0/2', status: 'discarded' },
    ])
    expect(await keys()).toEqual([])
    expect(log.records(topic)).toHaveLength(3)
    const none = { code: 'dead_letter_not_found' }
    await expect(recordLetters.show.run(context, filter)).rejects.toMatchObject(none)
    for (const { run } of [recordLetters.replay, recordLetters.discard]) {
      await expect(run(context, { filter })).rejects.toMatchObject(none)
    }
    expect(await newestAction()).toMatchObject({
      action: 'dead-letters.discard',
      outcome: 'refused',
      reason: 'dead_letter_not_found',
    })
  })
})
