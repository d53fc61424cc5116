/** What the embedded event log promises beyond the port: limits, what a restart finds, who listens badly. */

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type EmbeddedLog, type EmbeddedLogOptions, openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { TopicSpec } from '#engines/event-log/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import {
  join as joinGroup,
  numbered,
  openTail,
  range,
  readAll,
  record,
  values,
} from '../../../contract/event-log/world.ts'
import { topicSpec } from '../../../support/topic-spec.ts'

const spec = topicSpec('things', { recordBytesMax: 2_097_152 })

async function open(directory: string, options: Partial<EmbeddedLogOptions> = {}): Promise<EmbeddedLog> {
  const log = await openEmbeddedLog({ directory, ...options })
  onTestFinished(() => log.close())
  return log
}

async function openWithTopic(changes: Partial<TopicSpec> = {}, options: Partial<EmbeddedLogOptions> = {}) {
  const directory = temporaryFolder()
  const log = await open(directory, options)
  await log.createTopic({ ...spec, ...changes })
  return { log, directory, file: join(directory, 'event-log.sqlite') }
}

/** What the first version of this log wrote for a topic with two records. */
const firstLayout = `
  create table meta (name text primary key, value text not null) strict;
  create table topics (
    name text primary key, cleanup text not null, retention_ms integer, tombstone_retention_ms integer not null,
    segment_bytes integer not null, segment_ms integer not null, record_bytes_max integer not null
  ) strict;
  create table partitions (
    id integer primary key autoincrement, topic text not null, partition integer not null,
    start integer not null default 0, next_floor integer not null default 0,
    compacted_to integer not null default 0, clean_rows integer not null default 0, tombstone_due integer,
    unique (topic, partition)
  ) strict;
  create table positions (
    group_name text not null, topic text not null, partition integer not null,
    position integer not null, metadata text not null, at integer not null,
    primary key (group_name, topic, partition)
  ) strict, without rowid;
  create table p1 (o integer primary key, ts integer not null, key blob, headers blob, value blob) strict;
  insert into meta values ('layout', '1');
  insert into topics values ('things', 'delete', null, 86400000, 67108864, 600000, 2097152);
  insert into partitions (topic, partition) values ('things', 0);
  insert into p1 values (0, 1700000000000, x'6b', x'7b7d', x'30'), (1, 1700000000000, x'6b', x'7b7d', x'31');
`

describe('the file', () => {
  test('a file of a newer layout is refused with a clear word, and left alone', async () => {
    const { log, directory, file } = await openWithTopic()
    await log.close()
    const db = new DatabaseSync(file)
    db.exec(`update meta set value = '99' where name = 'layout'`)
    db.close()
    await expect(openEmbeddedLog({ directory })).rejects.toMatchObject({
      code: 'invalid_configuration',
      message: expect.stringContaining('layout 99'),
    })
  })

  test('a file of the first layout is carried over: its topics stay as they were laid, new ones get batches', async () => {
    const directory = temporaryFolder()
    const file = join(directory, 'event-log.sqlite')
    const db = new DatabaseSync(file)
    db.exec(firstLayout)
    db.close()
    const log = await open(directory)
    expect(await log.append('things', 0, numbered(2, 2))).toBe(2)
    await log.createTopic({ ...spec, name: 'others' })
    await log.append('others', 0, numbered(3))
    await log.deleteRecords('things', 0, 1)
    await log.sweepNow()
    await log.close()
    const again = await open(directory)
    expect(values(await readAll(again, 'things'))).toEqual(['1', '2', '3'])
    expect(values(await readAll(again, 'others'))).toEqual(['0', '1', '2'])
    const reread = new DatabaseSync(file, { readOnly: true })
    expect(reread.prepare('select count(*) as n from p1').get()).toEqual({ n: 3 })
    expect(reread.prepare('select first, last from p2').all()).toEqual([{ first: 0, last: 2 }])
    reread.close()
  })

  test('close waits for appends under way, and may be called again', async () => {
    const { log, directory } = await openWithTopic()
    const late = Promise.all(range(0, 50).map((i) => log.append('things', 0, numbered(20, i * 20))))
    await Promise.all([log.close(), log.close()])
    expect((await late).at(-1)).toBe(980)
    await expect(log.append('things', 0, numbered(1))).rejects.toMatchObject({ code: 'shutting_down' })
    await expect(log.ping()).rejects.toMatchObject({ code: 'shutting_down' })
    expect(await readAll(await open(directory), 'things')).toHaveLength(1_000)
  })

  test('a topic made again under an old name starts empty, without its positions', async () => {
    const { log } = await openWithTopic()
    await log.append('things', 0, numbered(5))
    await log.setPositions('group', 'things', [{ partition: 0, offset: 3 }])
    await log.deleteTopic('things')
    await log.createTopic(spec)
    expect(await log.offsets('things')).toEqual([{ partition: 0, start: 0, end: 0 }])
    expect((await log.groupState('group', 'things')).committed).toEqual([])
    expect(await log.append('things', 0, numbered(1))).toBe(0)
  })

  test('topics and groups that make no sense are refused', async () => {
    const { log } = await openWithTopic()
    for (const changes of [
      { name: 'a b' },
      { name: '' },
      { name: 'x', partitions: 0 },
      { name: 'y', partitions: 1.5 },
    ]) {
      await expect(log.createTopic({ ...spec, ...changes })).rejects.toMatchObject({ code: 'bad_request' })
    }
    await expect(log.deleteRecords('things', 0, 1)).rejects.toMatchObject({ code: 'bad_request' })
    await expect(log.setPositions('g', 'things', [{ partition: 0, offset: -1 }])).rejects.toMatchObject({
      code: 'bad_request',
    })
    // It is refused before it would need a listener.
    await expect(log.consume({ group: 'g', topic: 'nowhere', listener: {} as never })).rejects.toMatchObject({
      code: 'not_found',
    })
  })
})

describe('writing', () => {
  test('a partition whose queue is full says overloaded; the others go on', async () => {
    const { log } = await openWithTopic({ partitions: 2 })
    const first = log.append('things', 0, numbered(100_000), { timeoutMs: 25_000 })
    await expect(log.append('things', 0, numbered(1))).rejects.toMatchObject({
      code: 'overloaded',
      retryAfter: 1,
    })
    await expect(log.append('things', 1, numbered(1), { timeoutMs: 25_000 })).resolves.toBe(0)
    await first
    await expect(log.append('things', 0, numbered(1))).resolves.toBe(100_000)
  })

  test('while the file is locked appends say log_unavailable in time, and go on by themselves', async () => {
    const { log, file } = await openWithTopic()
    await log.append('things', 0, [record('k', 'before')])
    const other = new DatabaseSync(file)
    other.exec('begin immediate')
    const refused = log.append('things', 0, [record('k', 'refused')], { timeoutMs: 200 })
    await expect(refused).rejects.toMatchObject({ code: 'log_unavailable' })
    other.exec('rollback')
    other.close()
    const offset = await log.append('things', 0, [record('k', 'after')], { timeoutMs: 20_000 })
    const stored = await readAll(log, 'things')
    expect(stored.map((one) => one.offset)).toEqual(range(0, offset + 1))
    // A refused append may be stored, but only in its order.
    expect([...new Set(['before', 'refused', 'after', ...values(stored)])]).toEqual([
      'before',
      'refused',
      'after',
    ])
    expect(values(stored).at(-1)).toBe('after')
  })

  test('a record without a key is refused on a compacted topic', async () => {
    const { log } = await openWithTopic({ cleanup: 'compact' })
    await expect(log.append('things', 0, [record('k', 'v'), record(null, 'v')])).rejects.toMatchObject({
      code: 'bad_request',
    })
    expect(await log.append('things', 0, [])).toBe(0)
  })

  test('records handed over from memory and those read from the file are the same', async () => {
    const { log } = await openWithTopic()
    const { tail, records } = await openTail(log, 'things', 'beginning')
    await tail.ready
    const odd = [
      record('k', 'v', { a: 'ä', b: '' }),
      record(null, null),
      record('', '', {}),
      record('k', '漢字'),
    ]
    for (const one of odd) await log.append('things', 0, [one, ...odd])
    expect(records).toHaveLength(20)
    expect(await readAll(log, 'things')).toEqual(records)
  })
})

describe('listening', () => {
  test('a listener that throws is reported as a fault, and neither it nor another misses a record', async () => {
    const faults: unknown[] = []
    const { log } = await openWithTopic({}, { onFault: (error) => void faults.push(error) })
    const bad = await joinGroup(log, {
      group: 'bad',
      topic: 'things',
      onRecords() {
        throw new Error('not today')
      },
    })
    const good = await joinGroup(log, { group: 'good', topic: 'things' })
    await eventually('both own it', () => bad.gained.length + good.gained.length === 2)
    for (const i of range(0, 5)) await log.append('things', 0, numbered(1, i))
    await eventually('both received all', () => bad.records.length === 5 && good.records.length === 5)
    expect(faults.length).toBeGreaterThan(0)
    expect(String(faults[0])).toContain('not today')
  })

  test('a member whose log was closed commits nothing, and the next one finds what it committed before', async () => {
    const { log, directory } = await openWithTopic()
    await log.append('things', 0, numbered(4))
    const before = await joinGroup(log, { group: 'g', topic: 'things' })
    await eventually('all are read', () => before.records.length === 4)
    await before.consumer.commit(0, 1, 'x')
    await log.close()
    expect(before.consumer.alive()).toBe(false)
    expect(await before.consumer.commit(0, 4, '')).toBe('lost')
    const after = await joinGroup(await open(directory), { group: 'g', topic: 'things' })
    await eventually('the rest is read', () => after.records.length === 3)
    expect(after.gained[0]).toMatchObject({ committed: { offset: 1, metadata: 'x' } })
  })

  test('a paused member holds one block in memory, however much is waiting', async () => {
    const { log } = await openWithTopic()
    for (const i of range(0, 40))
      await log.append('things', 0, numbered(1_000, i * 1_000), { timeoutMs: 20_000 })
    const pausing: { now?: () => void } = {}
    const member = await joinGroup(log, {
      group: 'g',
      topic: 'things',
      start: () => null,
      onRecords: () => pausing.now?.(),
    })
    await eventually('it owns the partition', () => member.gained.length === 1)
    pausing.now = () => member.consumer.pause(0)
    member.consumer.seek(0, 0)
    await eventually('one block arrives', () => member.records.length > 0)
    const received = member.records.length
    await log.append('things', 0, numbered(10, 40_000))
    expect(member.records).toHaveLength(received)
    pausing.now = () => {}
    member.consumer.resume(0)
    await eventually('all arrive', () => member.records.length === 40_010)
    expect(member.offsets(0)).toEqual(range(0, 40_010))
  })

  test('a tail that is closed before it has caught up says so to those who wait', async () => {
    const { log } = await openWithTopic()
    await log.append('things', 0, numbered(5_000), { timeoutMs: 20_000 })
    const { tail } = await openTail(log, 'things', 'beginning')
    const ready = tail.ready
    await tail.close()
    await expect(ready).rejects.toMatchObject({ code: 'shutting_down' })
  })

  test('a group with members cannot be deleted', async () => {
    const { log } = await openWithTopic()
    const member = await joinGroup(log, { group: 'g', topic: 'things' })
    await expect(log.deleteGroup('g')).rejects.toMatchObject({ code: 'group_active' })
    await member.consumer.close()
    await log.deleteGroup('g')
    expect(await log.listGroups()).toEqual([])
  })
})

describe('a file that takes no writes for a while', () => {
  test('a partition that is gained meanwhile is started as soon as it takes them again', async () => {
    const faults: unknown[] = []
    const { log, file } = await openWithTopic({}, { onFault: (error) => void faults.push(error) })
    await log.append('things', 0, numbered(3))
    await log.setPositions('g', 'things', [{ partition: 0, offset: 1 }])
    const other = new DatabaseSync(file)
    onTestFinished(() => other.close())
    other.exec('begin immediate')
    const member = await joinGroup(log, { group: 'g', topic: 'things' })
    await eventually('the first try failed', () => faults.length > 0)
    expect(member.gained).toEqual([])
    other.exec('rollback')
    await eventually('the rest is read', () => member.records.length === 2)
    expect(member.gained).toMatchObject([{ partition: 0, committed: { offset: 1 } }])
  })

  test('one that is lost before is not started any more', async () => {
    const faults: unknown[] = []
    const { log, file } = await openWithTopic({}, { onFault: (error) => void faults.push(error) })
    const other = new DatabaseSync(file)
    onTestFinished(() => other.close())
    other.exec('begin immediate')
    const member = await joinGroup(log, { group: 'g', topic: 'things' })
    await eventually('the first try failed', () => faults.length > 0)
    await member.consumer.close()
    other.exec('rollback')
    const next = await joinGroup(log, { group: 'g', topic: 'things' })
    await eventually('the next one has it', () => next.gained.length === 1)
    expect(member.gained).toEqual([])
  })
})
