/** Groups of an index under an operator's hand: a point that never gets through is passed, and a position is set back. */

import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { resetGroupAction, skipRecordAction } from '#operations/groups.ts'
import { readLag } from '#operations/lag.ts'
import { openPlatform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { openProgress } from '#services/vectors/read/operations/progress.ts'
import type { IndexWriter } from '#services/vectors/write/generation-writer.ts'
import { createHandler, joinApplies } from '#services/vectors/write/handler.ts'
import { vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { startIndexWriter } from '#services/vectors/write/worker.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { theFourAlone } from '../support/collections.ts'
import { eventually } from '../support/eventually.ts'
import { nothingBased } from '../support/nothing-based.ts'
import { operating } from '../support/operator.ts'
import { temporaryFolder } from '../support/temporary.ts'

const operation = 'an-operation'
const log = pino({ level: 'silent' })

/** A platform whose vector-writer has an engine that finds no end for the point `slow`. */
async function openSlowPlatform() {
  const platform = await openPlatform({
    env: { FLOTILLA_HOME: temporaryFolder() },
    needs: [],
    migrations: migrationFolders,
    producerName: 'tests',
    log,
    lock: true,
  })
  onTestFinished(() => platform.close())
  const points = new Set<string>()
  const engine: IndexWriter['engine'] = {
    liveGeneration: async () => 1,
    async createGeneration() {},
    async promoteGeneration() {},
    async ping() {},
  }
  const apply = async (_: string, operations: { id: string }[]) => {
    if (operations.some(({ id }) => id === 'slow')) {
      throw new AppError('vector_engine_unavailable', 'no answer in time')
    }
    for (const { id } of operations) points.add(id)
  }
  const writer: IndexWriter = {
    index: vectorsIndex,
    engine,
    batchRecordsMax: 500,
    batchBytesMax: 8e6,
    callTimeoutMs: 2_000,
    openGeneration: ({ generation, epoch, calls, stuck }) => ({
      handle: createHandler({
        applyPoints: joinApplies(apply, generation),
        epoch,
        calls,
        stuck,
        collections: theFourAlone,
        based: nothingBased,
      }),
    }),
  }
  const startWriter = async () => {
    const worker = await startIndexWriter({ ...platform, config: {} }, writer)
    onTestFinished(() => worker.close())
    return worker
  }
  return { platform, points, startWriter }
}

test('a point that never gets through raises an alarm, and is passed by an operator', {
  timeout: 120_000,
}, async () => {
  const { platform, points, startWriter } = await openSlowPlatform()
  await startWriter()
  const { relational } = platform.engines
  const ids = [
    ...Array.from({ length: 40 }, (_, n) => `p${n}`),
    'slow',
    ...Array.from({ length: 40 }, (_, n) => `q${n}`),
  ]
  const value = {
    vector: Buffer.alloc(1_536 * 4, 0x3f),
    payload: '{}',
    embedder: null,
    making: null,
    expires_at: null,
  }
  await platform.publisher.publish(
    vectorsCommands,
    ids.map((id) => ({ key: { collection: 'posts', id }, value, headers: { operation } })),
  )
  const groupOf = async () => {
    const groups = await readLag(platform)
    return groups.find(({ group }) => group === 'vector-writer')!
  }
  await eventually('the alarm is raised', async () => (await groupOf()).stuck.length > 0, 60_000)
  const [stuck] = (await groupOf()).stuck
  expect(stuck).toMatchObject({
    key: 'posts/slow',
    reason: expect.stringContaining('no answer'),
    skip: false,
  })
  const { partition, offset } = stuck!

  const skip = (at: { partition: number; offset: number }, group = 'vector-writer') => {
    return skipRecordAction.run(operating(platform), { group, ...at })
  }
  expect(await skip({ partition, offset })).toEqual({
    group: 'vector-writer',
    topic: 'vectors.commands',
    partition,
    offset,
    key: 'posts/slow',
    operation,
    outcome: 'parked',
    dead_letter: `vector-writer/${partition}/${offset}`,
  })
  await eventually('all others are applied', () => points.size === ids.length - 1, 60_000)
  const { rows } = await relational.query('select point_id, index_name from platform.operation_failures')
  expect(rows).toEqual([{ point_id: 'slow', index_name: 'vectors' }])
  await eventually('nothing is stuck', async () => (await groupOf()).stuck.length === 0, 60_000)

  await expect(skip({ partition, offset })).rejects.toMatchObject({ code: 'conflict' })
  await expect(skip({ partition, offset: 9_999 })).rejects.toMatchObject({ code: 'not_found' })
  await expect(skip({ partition, offset }, 'audit-writer')).rejects.toMatchObject({ code: 'conflict' })
})

test('operations beyond a position that was set back count as accepted until they are applied again', async () => {
  const { platform, points, startWriter } = await openSlowPlatform()
  const { publisher, codec, log } = platform
  const { eventLog } = platform.engines
  const worker = await startWriter()
  const value = {
    vector: Buffer.alloc(1_536 * 4, 0x3f),
    payload: '{}',
    embedder: null,
    making: null,
    expires_at: null,
  }
  const written = await publisher.publish(vectorsCommands, [{ key: { collection: 'posts', id: 'a' }, value }])
  const engine = { liveGeneration: async () => 1 }
  const parts = { eventLog, codec, publisher, log, vectors: engine, mirror: engine }
  const progress = await openProgress(parts)
  onTestFinished(() => progress.close())
  expect(await progress.reached(written, 60_000)).toBe(true)
  await worker.close()

  const context = operating(platform)
  await resetGroupAction.run(context, { group: 'vector-writer', to: 'beginning' })
  const { partition } = written[0]!
  await eventually('the gateway knows', () => progress.appliedThrough(partition) === -1, 60_000)
  points.clear()
  await startWriter()
  expect(await progress.reached(written, 60_000)).toBe(true)
  expect([...points]).toEqual(['a'])
})
