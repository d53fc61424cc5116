/** Appending: order, offsets, durability, limits of a record, refusals. */

import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { join, numbered, range, readAll, record, values, type World } from './world.ts'

export function describeAppending(world: World): void {
  describe('appending', () => {
    describeOrder(world)
    describeRecords(world)
    describeRefusals(world)
  })
}

function describeOrder(world: World): void {
  test('an append resolves with the offset of its first record; the others follow directly', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    expect(await log.append(topic, 0, numbered(3))).toBe(0)
    expect(await log.append(topic, 0, numbered(2, 3))).toBe(3)
    const stored = await readAll(log, topic)
    expect(stored.map((one) => one.offset)).toEqual(range(0, 5))
    expect(values(stored)).toEqual(['0', '1', '2', '3', '4'])
  })

  test('concurrent appends to one partition keep the order of their calls', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    let next = 0
    const calls = range(0, 200).map((i) => {
      const records = numbered((i % 3) + 1, next)
      next += records.length
      return log.append(topic, 0, records, { timeoutMs: 20_000 })
    })
    const firsts = await Promise.all(calls)
    expect(firsts).toEqual(firsts.toSorted((a, b) => a - b))
    expect(new Set(firsts).size).toBe(200)
    expect(values(await readAll(log, topic))).toEqual(range(0, next).map(String))
  })

  test('each of several clients keeps the order of its own appends', async () => {
    const [one, two] = [await world.client(), await world.client()]
    const topic = await world.topic(one)
    await one.append(topic, 0, [record('start', 'start')])
    const write = (log: typeof one, name: string) =>
      Promise.all(range(0, 50).map((i) => log.append(topic, 0, [record(name, `${name}${i}`)])))
    await Promise.all([write(one, 'a'), write(two, 'b')])
    const stored = values(await readAll(one, topic))
    for (const name of ['a', 'b']) {
      expect(stored.filter((value) => value?.match(`^${name}\\d`))).toEqual(range(0, 50).map((i) => name + i))
    }
  })

  test('acknowledged records are there after every client was closed', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    await log.append(topic, 0, numbered(20))
    await log.append(topic, 1, numbered(5))
    await log.close()
    const again = await world.clientAfterRestart()
    expect(await again.offsets(topic)).toEqual([
      { partition: 0, start: 0, end: 20 },
      { partition: 1, start: 0, end: 5 },
    ])
    expect(await again.append(topic, 0, numbered(1, 20))).toBe(20)
    const stored = (await readAll(again, topic)).filter((one) => one.partition === 0)
    expect(values(stored)).toEqual(range(0, 21).map(String))
  })

  test('close waits for appends that are under way', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(1))
    const late = log.append(topic, 0, numbered(10, 1))
    await log.close()
    expect(await late).toBe(1)
    expect(await readAll(await world.clientAfterRestart(), topic)).toHaveLength(11)
  })
}

function describeRecords(world: World): void {
  test('null and empty keys and values stay apart', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, [record(null, 'v'), record('k', null), record('', ''), record(null, null)])
    const stored = await readAll(log, topic)
    expect(stored.map((one) => [one.key?.toString() ?? null, one.value?.toString() ?? null])).toEqual([
      [null, 'v'],
      ['k', null],
      ['', ''],
      [null, null],
    ])
  })

  test('headers come back as they were sent, also text that is not ASCII', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    const headers = { agent: 'Zoë', 'event-id': '01J', note: '漢字 🚀 "quoted" \\ \n', empty: '' }
    await log.append(topic, 0, [record('k', 'v', headers), record('k', 'w')])
    const stored = await readAll(log, topic)
    expect(stored[0]!.headers).toEqual(headers)
    expect(stored[1]!.headers).toEqual({})
  })

  test('a record carries its partition and the time of its append', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    const before = Date.now()
    await log.append(topic, 1, [record('k', 'v')])
    const [stored] = await readAll(log, topic)
    expect(stored!.partition).toBe(1)
    expect(stored!.timestamp).toBeGreaterThanOrEqual(before - 1_000)
    expect(stored!.timestamp).toBeLessThanOrEqual(Date.now() + 1_000)
  })

  test('any bytes come back, and large records pass a small fetch in order', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    const bodies = [1_500_000, 10, 700_000, 700_000, 0, 300_000].map((size) => randomBytes(size))
    for (const value of bodies) {
      await log.append(topic, 0, [{ key: Buffer.from([0, 255, 128]), value }], { timeoutMs: 20_000 })
    }
    const member = await join(log, { group: world.name('group'), topic, fetchBytesMax: 65_536 })
    await eventually('all large records', () => member.records.length === bodies.length)
    expect(member.records.map((one) => one.value!.equals(bodies[one.offset]!))).toEqual(
      bodies.map(() => true),
    )
    expect(member.records[0]!.key).toEqual(Buffer.from([0, 255, 128]))
    expect(member.offsets(0)).toEqual(range(0, bodies.length))
  })
}

function describeRefusals(world: World): void {
  test('an empty append writes nothing and resolves with the next offset', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.append(topic, 0, numbered(3))
    expect(await log.append(topic, 0, [])).toBe(3)
    expect(await log.offsets(topic)).toEqual([{ partition: 0, start: 0, end: 3 }])
  })

  test('a topic or a partition that does not exist takes nothing', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { partitions: 2 })
    await log.append(topic, 0, numbered(1))
    await expect(log.append(world.name('nowhere'), 0, numbered(1))).rejects.toMatchObject({
      code: 'not_found',
    })
    for (const partition of [2, 99, -1]) {
      await expect(log.append(topic, partition, numbered(1))).rejects.toMatchObject({ code: 'not_found' })
    }
  })

  test('a record above the limit of its topic is refused, and the partition goes on', async () => {
    const log = await world.client()
    const topic = await world.topic(log, { recordBytesMax: 100_000 })
    const large = { key: null, value: randomBytes(200_000) }
    await expect(log.append(topic, 0, [record('k', 'small'), large])).rejects.toMatchObject({
      code: 'payload_too_large',
    })
    expect(await log.append(topic, 0, numbered(1))).toBe(0)
  })

  test('a closed client may be closed again, and refuses to append', async () => {
    const log = await world.client()
    const topic = await world.topic(log)
    await log.close()
    await log.close()
    await world.harness().restart?.()
    await expect(log.append(topic, 0, numbered(1))).rejects.toMatchObject({ name: 'AppError' })
  })
}
