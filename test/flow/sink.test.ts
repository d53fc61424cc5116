/** Sinks on embedded engines: data and position agree, whatever a sink was doing when it ended. */

import { appendFileSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { openJsonlTarget, type SinkTarget } from '#operations/sink/jsonl.ts'
import { openPostgresTarget, type PostgresOptions } from '#operations/sink/postgres.ts'
import { copyInto, type SinkArgs } from '#operations/sink/sink.ts'
import { fleetEvents, hubRecords } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { openEmptyRelational } from '../support/relational.ts'
import { openSinkWorld } from '../support/sink-world.ts'
import { temporaryFolder } from '../support/temporary.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
})
afterAll(() => relational?.close())

type World = Awaited<ReturnType<typeof openSinkWorld>>

const topic = hubRecords.name

/** `follow`: until the signal aborts. */
function copy(
  world: World,
  target: SinkTarget,
  given: Partial<SinkArgs> = {},
  signal = new AbortController().signal,
) {
  const args = { topic, from: 'beginning', follow: false, skipExpired: false, ...given }
  const done: number[] = []
  const output = { progress: (state: { done: number }) => void done.push(state.done) }
  return copyInto({ platform: world.platform, output, signal }, args, target)
}

const jsonl = (folder: string, rotateBytes = 1_000_000) => openJsonlTarget({ folder, topic, rotateBytes })
const filesIn = (folder: string) =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .sort()
const textIn = (folder: string) =>
  filesIn(folder)
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .join('')
const linesIn = (folder: string) =>
  textIn(folder)
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
const placesIn = (folder: string) => linesIn(folder).map(({ partition, offset }) => `${partition}/${offset}`)

test('a line is a record with the position behind it; files rotate; a further run adds new records', async () => {
  const world = await openSinkWorld()
  const folder = temporaryFolder()
  for (let id = 1; id <= 40; id++) await world.note(id)
  await world.remove(7)
  expect(await copy(world, await jsonl(folder, 2_000))).toMatchObject({ topic, records: 41 })
  expect(filesIn(folder).length).toBeGreaterThan(2)
  const lines = linesIn(folder)
  expect(lines.filter(({ key }) => key === 'note/7').map(({ value }) => value?.title ?? null)).toEqual([
    'note 7',
    null,
  ])
  expect(Object.keys(lines[0])).toEqual([
    'position',
    'partition',
    'offset',
    'timestamp',
    'key',
    'headers',
    'value',
  ])
  expect(await copy(world, await jsonl(folder, 2_000))).toMatchObject({
    records: 0,
    position: lines.at(-1).position,
  })
  await world.note(41)
  expect(await copy(world, await jsonl(folder, 2_000))).toMatchObject({ records: 1 })
  expect(new Set(placesIn(folder)).size).toBe(42)
})

test('the next run repairs a torn last file: nothing is missing, nothing twice', async () => {
  const world = await openSinkWorld()
  for (let id = 1; id <= 30; id++) await world.note(id, 1, 'ü'.repeat(id))
  const whole = temporaryFolder()
  await copy(world, await jsonl(whole))
  const [name] = filesIn(whole)
  const bytes = readFileSync(join(whole, name!))
  for (let cut = 0; cut <= bytes.length; cut += 211) {
    const folder = temporaryFolder()
    writeFileSync(join(folder, name!), bytes)
    truncateSync(join(folder, name!), cut)
    await copy(world, await jsonl(folder))
    expect(new Set(placesIn(folder))).toEqual(new Set(placesIn(whole)))
    expect(placesIn(folder)).toHaveLength(30)
  }
  // A file that was begun and holds no whole line, and bytes that were never data.
  appendFileSync(join(whole, `${topic}-000002.jsonl`), '{"position":"0:')
  appendFileSync(join(whole, name!), Buffer.alloc(5_000))
  expect(await copy(world, await jsonl(whole))).toMatchObject({ records: 0 })
  expect(filesIn(whole)).toEqual([name])
  expect(placesIn(whole)).toHaveLength(30)
})

test('a second sink of a folder is refused, and so is a file of somebody else', async () => {
  const folder = temporaryFolder()
  const first = await jsonl(folder)
  await expect(jsonl(folder)).rejects.toMatchObject({ code: 'conflict' })
  await first.close()
  writeFileSync(join(folder, `${topic}-000009.jsonl`), 'mine\n')
  await expect(jsonl(folder)).rejects.toMatchObject({ code: 'conflict' })
  expect(readFileSync(join(folder, `${topic}-000009.jsonl`), 'utf8')).toBe('mine\n')
})

test('it follows until it is ended, and waits while the registry is away', async () => {
  const world = await openSinkWorld()
  const folder = temporaryFolder()
  await world.note(1)
  const stop = new AbortController()
  world.registry.away = true
  const running = copy(world, await jsonl(folder), { follow: true }, stop.signal)
  world.registry.away = false
  await eventually('the first is copied', () => placesIn(folder).length === 1)
  await world.note(2)
  await eventually('the second is copied', () => placesIn(folder).length === 2)
  stop.abort()
  expect(await running).toMatchObject({ records: 2 })
})

test('records that went before they were copied end the sink, or are skipped when that is asked for', async () => {
  const world = await openSinkWorld()
  const folder = temporaryFolder()
  const publish = (count: number) =>
    world.platform.publisher.publish(
      fleetEvents,
      Array.from({ length: count }, (_, n) => ({
        key: 'ATLAS',
        value: { event: 'task.completed', agent: 'ATLAS', task_id: `${n}`, result: '{}', ts: 1 },
      })),
    )
  const [first] = await publish(5)
  const open = () => openJsonlTarget({ folder, topic: fleetEvents.name, rotateBytes: 1_000_000 })
  const ofEvents = { topic: fleetEvents.name }
  await copy(world, await open(), ofEvents)
  await publish(5)
  await world.eventLog.deleteRecords(fleetEvents.name, first!.partition, 8)
  await expect(copy(world, await open(), ofEvents)).rejects.toMatchObject({ code: 'position_expired' })
  expect(await copy(world, await open(), { ...ofEvents, skipExpired: true })).toMatchObject({ records: 2 })
})

/** The relational engine outlives the sink; each test has a table of its own. */
async function postgres(table: string, given: Partial<PostgresOptions> = {}): Promise<SinkTarget> {
  const options = { topic, name: `copy into ${table}`, table, mode: 'state' as const, ...given }
  return openPostgresTarget({ ...relational, close: async () => {} }, options)
}

async function keysIn(table: string): Promise<string[]> {
  const { rows } = await relational.query<{ key: string; version: number }>(
    `select key, (value->>'version')::int as version from ${table} order by length(key), key`,
  )
  return rows.map(({ key, version }) => `${key} v${version}`)
}

test('a table of states has the newest of each key; after topics grow the rows of deleted keys go', async () => {
  const world = await openSinkWorld()
  for (let id = 1; id <= 5; id++) await world.note(id)
  await world.note(2, 2, 'with \0 in it')
  await world.remove(3)
  expect(await copy(world, await postgres('states'))).toMatchObject({ records: 7 })
  expect(await keysIn('states')).toEqual(['note/1 v1', 'note/2 v2', 'note/4 v1', 'note/5 v1'])
  await world.note(1, 2)
  expect(await copy(world, await postgres('states'))).toMatchObject({ records: 1 })
  // Note 4 was deleted before the topic was copied, which leaves tombstones out.
  await world.grow()
  for (const [id, version] of [
    [1, 2],
    [2, 2],
    [5, 3],
  ] as const)
    await world.note(id, version)
  const { position } = await copy(world, await postgres('states'))
  expect(position).toMatch(/^e2\/0:/)
  expect(await keysIn('states')).toEqual(['note/1 v2', 'note/2 v2', 'note/5 v3'])
})

test('a table of records has each once, also when the answer of a commit was lost', async () => {
  const world = await openSinkWorld()
  for (let id = 1; id <= 20; id++) await world.note(id)
  await world.remove(4)
  const target = await postgres('records', { mode: 'append' })
  let lost = 0
  const forgetful: SinkTarget = {
    ...target,
    async write(records) {
      await target.write(records)
      if (lost++ < 3) await target.write(records)
    },
  }
  await copy(world, forgetful)
  const { rows } = await relational.query<{ count: number; tombstones: number }>(
    'select count(*)::int as count, count(*) filter (where value is null)::int as tombstones from records',
  )
  expect(rows).toEqual([{ count: 21, tombstones: 1 }])
})

test('a record that cannot be decoded is neither a value nor a tombstone', async () => {
  const world = await openSinkWorld()
  await world.eventLog.append(topic, 3, [{ key: Buffer.from('note/1'), value: Buffer.from('no Avro') }])
  await copy(world, await postgres('faults'))
  const { rows } = await relational.query<{ value: object }>('select value from faults')
  expect(rows).toEqual([{ value: { fault: expect.stringContaining('not the wire format') } }])
})

test('the earlier of two sinks with one name is fenced; another copy needs another name', async () => {
  const world = await openSinkWorld()
  await world.note(1)
  const stop = new AbortController()
  const first = copy(world, await postgres('fenced'), { follow: true }, stop.signal)
  const ended = first.catch((error: unknown) => error)
  await eventually('the first is copied', async () => (await keysIn('fenced')).length === 1)
  const second = await postgres('fenced')
  await world.note(2)
  expect(await ended).toMatchObject({ code: 'fenced' })
  expect(await copy(world, second)).toMatchObject({ records: 1 })
  expect(await keysIn('fenced')).toEqual(['note/1 v1', 'note/2 v1'])
  await expect(postgres('other', { name: 'copy into fenced' })).rejects.toMatchObject({ code: 'conflict' })
})
