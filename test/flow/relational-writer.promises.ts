/** From the log to the rows of the mirror: overwritten, deleted, parked, filled again, rebuilt. */

import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rebuildRelationalAction } from '#operations/rebuild.ts'
import { openProgressTail } from '#services/vectors/write/progress.ts'
import { listGenerations, relationalIndex } from '#services/vectors/write/rebuild.ts'
import { eventually } from '../support/eventually.ts'
import { type MirrorPlatform, openMirrorPlatform, type Written } from '../support/mirror-platform.ts'
import { operating } from '../support/operator.ts'

type Environment = Record<string, string>

const longMs = 120_000
const readMs = 20_000

/** `environment` names empty engines; one platform after the other runs on them. */
export function describeRelationalWriter(driver: string, environment: () => Promise<Environment>): void {
  describe(`relational-writer (${driver})`, () => {
    let env: Environment
    let flow: MirrorPlatform
    const open = async () => {
      flow = await openMirrorPlatform(env, () => {})
    }
    beforeAll(async () => {
      env = await environment()
      await open()
    }, longMs)
    afterAll(() => flow?.close(), longMs)

    it(
      'brings upserts, overwrites and deletes into both tables, and leaves audit notes out',
      () => bringsChanges(flow),
      longMs,
    )
    it('takes any payload: columns where the type fits, everything in payload', () => takesAny(flow), longMs)
    it(
      'parks what can never be a row, says why under its operation, and goes on',
      () => parksPoison(flow),
      longMs,
    )
    it(
      'begins at the position of its rows, whatever was committed',
      async () => {
        await flow.publish(Array.from({ length: 60 }, (_, i) => ({ id: `p${i}`, payload: { i } })))
        await flow.drained()
        const all = await flow.rows()
        // As a database that was restored from an earlier moment: the log's commits are ahead of the rows.
        await flow.mirror.write.query(
          `delete from vectors.embeddings where id like '%1'; delete from vectors.metadata where id like '%1';
           update vectors_build.positions set next = 0, written = 0`,
        )
        expect(await flow.rows()).not.toEqual(all)
        await flow.close()
        await open()
        await eventually('the rows are back', async () => isDeepStrictEqual(await flow.rows(), all), longMs)
      },
      longMs,
    )
    it(
      'is rebuilt while writes go on, continues after a stop in the middle, and keeps the rights of readers',
      async () => {
        // A row of no record goes with the old tables.
        await flow.mirror.write.query(
          `insert into vectors.metadata (collection, id, payload) values ('posts', 'stray', '{}')`,
        )
        await expect(rebuild(flow, AbortSignal.abort())).rejects.toMatchObject({ code: 'shutting_down' })
        await flow.close()
        await open()
        await rebuildsWhileWriting(flow)
      },
      2 * longMs,
    )
  })
}

async function bringsChanges(flow: MirrorPlatform): Promise<void> {
  await flow.publish([
    { id: 'a', payload: { title: 'old' } },
    { id: 'b', payload: { title: 'gone soon' } },
    { id: 'c/d', collection: 'almemsha', payload: { n: 1 } },
    { id: 'audit-1', collection: 'fleet_notes', payload: { title: 'a note' } },
    { id: 'note-1', collection: 'fleet_notes', payload: { title: 'kept' } },
    { id: 'a', payload: { title: 'new' }, seed: 2 },
    { id: 'b', payload: null },
  ])
  await flow.drained()
  expect(await flow.rows()).toEqual({
    'almemsha/c/d': { n: 1 },
    'fleet_notes/note-1': { title: 'kept' },
    'posts/a': { title: 'new' },
  })
  const text = 'select id from vectors.embeddings where collection = $1'
  expect((await flow.mirror.read(text, ['posts'], { timeoutMs: readMs })).rows).toEqual([{ id: 'a' }])
  await flow.publish([{ id: 'a', payload: null }])
  await flow.drained()
  expect(Object.keys(await flow.rows())).toEqual(['almemsha/c/d', 'fleet_notes/note-1'])
}

async function takesAny(flow: MirrorPlatform): Promise<void> {
  const collection = 'knowledgebase'
  const odd = { title: 7, status: null, tags: ['x', 1, 'y'], mind_path: ['p'], updated_at: 'yesterday' }
  const nul = { title: 'a\0b', 'k\0': ['\ud800 alone'], updated_at: '2026-11-21T10:00:00+02:00' }
  await flow.publish([
    { id: 'odd', collection, payload: odd },
    { id: 'nul', collection, payload: nul },
    { id: 'day', collection, payload: { updated_at: '2024-02-30' } },
  ])
  await flow.drained()
  const { rows } = await flow.mirror.write.query(
    `select id, title, status, tags, mind_path, updated_at, payload from vectors.metadata
     where collection = 'knowledgebase' order by id`,
  )
  const empty = { title: null, status: null, tags: null, mind_path: null, updated_at: null }
  expect(rows).toEqual([
    { ...empty, id: 'day', payload: { updated_at: '2024-02-30' } },
    {
      ...empty,
      id: 'nul',
      title: 'a\ufffdb',
      updated_at: new Date('2026-11-21T08:00:00Z'),
      payload: { title: 'a\ufffdb', 'k\ufffd': ['\ufffd alone'], updated_at: nul.updated_at },
    },
    { ...empty, id: 'odd', tags: ['x', 'y'], payload: odd },
  ])
}

async function parksPoison(flow: MirrorPlatform): Promise<void> {
  const bad: Written[] = [
    { id: 'short', raw: { vector: Buffer.alloc(12) } },
    { id: 'text', raw: { payload: '[1]' } },
    { id: 'where', collection: 'nowhere' },
  ]
  await flow.publish(
    ['x', 'y'].flatMap((batch) => [
      { id: `${batch}-1` },
      ...bad.map((record) => ({ ...record, id: `${batch}-${record.id}`, operation: `op-${batch}` })),
      { id: `${batch}-2` },
    ]),
  )
  await flow.drained()
  expect(Object.keys(await flow.rows('posts'))).toEqual(['posts/x-1', 'posts/x-2', 'posts/y-1', 'posts/y-2'])
  const { rows } = await flow.platform.engines.relational.query(
    `select point_id, error from platform.operation_failures
     where operation = 'op-x' and index_name = 'relational' order by point_id`,
  )
  expect(rows).toEqual([
    { point_id: 'x-short', error: 'the vector has 12 bytes instead of 6144' },
    { point_id: 'x-text', error: 'the payload is not a JSON object' },
    { point_id: 'x-where', error: 'there is no collection named nowhere' },
  ])
  const failures = [...(await progressOf(flow)).values()].map((one) => one.failures)
  expect(failures.reduce((sum, one) => sum + one, 0)).toBe(6)
}

async function rebuildsWhileWriting(flow: MirrorPlatform): Promise<void> {
  const expected = await flow.rows()
  delete expected['posts/stray']
  let over = false
  const writing = (async () => {
    for (let n = 1; !over; n++) {
      const id = n % 3 === 0 ? `p${n % 50}` : `w${n}`
      await flow.publish([{ id, payload: { i: n } }])
      expected[`posts/${id}`] = { i: n }
    }
  })()
  const result = await Promise.race([rebuild(flow), writing.then(() => null)])
  over = true
  await writing
  expect(result).toMatchObject({ index: 'relational', generation: expect.any(Number) })
  // The one that was to stop may have had nothing left to do: then it was live for a moment, and this is the third.
  const next = result!.generation
  expect([2, 3]).toContain(next)
  await flow.drained()
  expect(await flow.rows()).toEqual(expected)
  const { relational, eventLog } = flow.platform.engines
  const states = (await listGenerations(relational, relationalIndex)).map(({ state }) => state)
  expect(states).toEqual([...Array(next - 1).fill('retired'), 'live'])
  expect(await flow.mirror.liveGeneration()).toBe(next)
  const count = 'select count(*) as n from vectors.embeddings'
  const { rows } = await flow.mirror.read(count, [], { timeoutMs: readMs })
  expect(rows).toEqual([{ n: Object.keys(expected).length }])
  const published = await progressOf(flow, next)
  for (const { partition, end } of await eventLog.offsets('vectors.commands')) {
    expect(published.get(partition)?.through).toBe(end - 1)
  }
}

function rebuild(flow: MirrorPlatform, signal = new AbortController().signal) {
  return rebuildRelationalAction.run(operating(flow.platform, signal), {})
}

/** The mirror's progress in vectors.progress, by partition. */
export async function progressOf(
  { platform }: MirrorPlatform,
  generation = 1,
): Promise<Map<number, { through: number; failures: number }>> {
  const { codec, publisher, engines, log } = platform
  const tail = await openProgressTail({
    codec,
    publisher,
    log,
    eventLog: engines.eventLog,
    index: relationalIndex,
  })
  try {
    await tail.catchUp()
    const epoch = 1
    return new Map(
      [...tail.appliedThrough(generation, epoch)].map(([partition, through]) => {
        const failures = tail.latest({ generation, epoch, partition })?.failures ?? 0
        return [partition, { through, failures }]
      }),
    )
  } finally {
    await tail.close()
  }
}
