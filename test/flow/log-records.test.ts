/** The records of a topic over the main API on the embedded log: pages, streams, positions, roles, and the client. */

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createMainApi, type TopicRecord } from '#client/client.ts'
import { fleetEvents, hubRecords, vectorsCommands } from '#topics/catalog.ts'
import { readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'

let api: MainApiPlatform
beforeAll(async () => {
  api = await openMainApiPlatform()
})
afterAll(() => api?.close())

const topic = fleetEvents.name
const pathOf = (of = topic) => `/api/v1/log/topics/${of}/records`

interface Page {
  records: TopicRecord<{ task_id: string }>[]
  next: string
}

async function page(query = '', token?: string, of = topic): Promise<Page> {
  const answer = await api.call('GET', `${pathOf(of)}${query}`, {
    token: token ?? (await api.tokenFor('viewer')),
  })
  expect([answer.status, answer.json.code]).toEqual([200, undefined])
  return answer.json.data as Page
}

let written = 0
/** Records of which each has a number. */
async function write(count: number, agent = 'ATLAS'): Promise<string[]> {
  const numbers = Array.from({ length: count }, () => `n-${++written}`)
  await api.platform.publisher.publish(
    fleetEvents,
    numbers.map((number, n) => ({
      key: `${agent}-${n % 20}`,
      value: { event: 'task.completed', agent, task_id: number, result: '{}', ts: 1 },
    })),
  )
  return numbers
}

const numbersOf = (records: readonly TopicRecord<{ task_id: string }>[]) =>
  records.map(({ value }) => value!.task_id)
const sorted = (numbers: readonly string[]) =>
  numbers.toSorted((a, b) => Number(a.slice(2)) - Number(b.slice(2)))

async function refusal(query: string, token?: string, of = topic): Promise<Record<string, unknown>> {
  const { status, json } = await api.call('GET', `${pathOf(of)}${query}`, {
    token: token ?? (await api.tokenFor('viewer')),
  })
  return { ...json, status }
}

test('pages give every record once, in the order of its partition, and then none', async () => {
  const numbers = await write(130)
  const records: Page['records'] = []
  let next = 'beginning'
  for (let rounds = 0; ; rounds++) {
    const read = await page(`?from=${next}&limit=25`)
    expect(read.records.length).toBeLessThanOrEqual(25)
    next = read.next
    if (read.records.length === 0) break
    // Every partition that has something left is in a page.
    if (rounds < 3) expect(new Set(read.records.map(({ partition }) => partition)).size).toBeGreaterThan(5)
    records.push(...read.records)
  }
  expect(sorted(numbersOf(records))).toEqual(numbers)
  for (const of of Map.groupBy(records, ({ partition }) => partition).values()) {
    expect(of.map(({ offset }) => offset)).toEqual(of.map((_, n) => n))
  }
  expect(next).toMatch(/^0:\d+(,\d+:\d+){11}$/)
  expect(records[0]).toEqual({
    partition: expect.any(Number),
    offset: 0,
    timestamp: expect.stringMatching(/Z$/),
    key: expect.stringMatching(/^ATLAS-\d+$/),
    headers: expect.objectContaining({ 'event-id': expect.any(String) }),
    value: expect.objectContaining({ event: 'task.completed', ts: 1 }),
  })
  // A position of some partitions alone: the others begin at their first record.
  const { records: rest } = await page(`?from=${next.split(',')[3]}&limit=1000`)
  expect(rest).toHaveLength(records.filter(({ partition }) => partition !== 3).length)
})

test('a page of one record is fair, too', async () => {
  let next = 'beginning'
  const partitions = new Set<number>()
  for (let n = 0; n < 12; n++) {
    const read = await page(`?from=${next}&limit=1`)
    partitions.add(read.records[0]!.partition)
    next = read.next
  }
  expect(partitions.size).toBeGreaterThan(5)
})

test('a page that waits gets the record that comes; without one it is empty, and its position the same', async () => {
  const { next } = await page('?from=end')
  const waiting = page(`?from=${next}&wait=20`)
  const [number] = await write(1)
  expect(numbersOf((await waiting).records)).toEqual([number])
  const { next: end } = await page('?from=end')
  expect(await page(`?from=${end}&wait=1`)).toEqual({ records: [], next: end })
})

test('an invalid position, or a number out of bounds, is refused with the field', async () => {
  for (const query of [
    '?from=x',
    '?from=0:1,0:2',
    '?from=e1/0:0',
    '?limit=0',
    '?limit=1001',
    '?wait=61',
    '?wait=x',
  ]) {
    const { status, code, errors } = await refusal(query)
    expect([query, status, code]).toEqual([query, 422, 'validation_failed'])
    expect((errors as { path: string }[])[0]!.path).toMatch(/^\/(from|limit|wait)$/)
  }
  expect(await refusal('', undefined, 'no.topic')).toMatchObject({ status: 403 })
  expect(await refusal('', await api.tokenFor('admin'), 'no.topic')).toMatchObject({ status: 404 })
})

test('a position outside of what the log holds is answered with the oldest that it holds', async () => {
  const { eventLog } = api.platform.engines
  await write(40, 'GONE')
  const [held] = (await eventLog.offsets(topic)).filter(({ end }) => end > 2)
  await eventLog.deleteRecords(topic, held!.partition, 2)
  const { earliest, ...problem } = await refusal(`?from=${held!.partition}:0`)
  expect(problem).toMatchObject({ status: 410, code: 'position_expired' })
  expect(problem.detail).toContain(`holds 2 to ${held!.end}`)
  expect(String(earliest).split(',')).toContain(`${held!.partition}:2`)
  expect((await page(`?from=${earliest}`)).records.length).toBeGreaterThan(0)
  for (const from of [`${held!.partition}:${held!.end + 1}`, '99:0', 'e3/0:0']) {
    expect(await refusal(`?from=${from}`)).toMatchObject({ status: 410, code: 'position_expired', earliest })
  }
})

test('hub.records and fleet.events are for every role, all others for admins; bytes are base64', async () => {
  await api.platform.publisher.publish(vectorsCommands, [
    {
      key: { collection: 'posts', id: 'p' },
      value: { vector: Buffer.from('vector'), payload: '{}', embedder: null, making: null, expires_at: null },
    },
    { key: { collection: 'posts', id: 'p' }, value: null },
  ])
  await page('', undefined, hubRecords.name)
  for (const access of ['viewer', 'member'] as const) {
    const token = await api.tokenFor(access)
    for (const of of [vectorsCommands.name, 'agents.changes', 'webhooks.deliveries.dead-letters']) {
      expect(await refusal('', token, of)).toMatchObject({ status: 403, code: 'forbidden' })
    }
  }
  const { records } = await page('', await api.tokenFor('admin'), vectorsCommands.name)
  expect(records.map(({ value }) => value)).toEqual([
    {
      vector: Buffer.from('vector').toString('base64'),
      payload: '{}',
      embedder: null,
      making: null,
      expires_at: null,
    },
    null,
  ])
})

async function stream(query: string, lastEventId?: string, access: 'viewer' | 'member' | 'admin' = 'viewer') {
  const url = `${api.baseUrl}${pathOf()}${query}`
  const reader = await readEvents(url, {
    token: await api.tokenFor(access),
    lastEventId,
    accept: 'text/event-stream',
  })
  onTestFinished(() => reader.cut())
  const records = () => reader.events.filter(({ event }) => event === 'message')
  return { ...reader, records, numbers: () => numbersOf(records().map(({ data }) => data)) }
}

test('a stream begins with its position and resumes behind any event, without a gap or a repeat', async () => {
  const first = await stream('?from=end')
  await eventually('it began', () => first.events.length === 1)
  const [ready] = first.events
  expect(ready).toMatchObject({ event: 'ready', data: { next: ready!.id } })
  const numbers = await write(60)
  await eventually('all came', () => first.numbers().length === 60)
  expect(sorted(first.numbers())).toEqual(numbers)
  first.cut()
  for (const at of [0, 17, 58]) {
    const { id } = first.records()[at]!
    const next = await stream('', id)
    await eventually('the rest came', () => next.numbers().length === 59 - at)
    expect(sorted([...first.numbers().slice(0, at + 1), ...next.numbers()])).toEqual(numbers)
    next.cut()
  }
  // The same position goes for pages.
  const { records } = await page(`?from=${first.records()[30]!.id}`)
  expect(records).toHaveLength(29)
})

test('answers of agents are in fleet.events for admins alone, in pages and streams', async () => {
  const { next } = await page('?from=end')
  const [number] = await write(1, 'SECRET')
  const value = { event: 'task.completed', agent: 'SECRET', task_id: number, ts: 1 }
  const shown = { viewer: value, member: value, admin: { ...value, result: '{}' } }
  // Texts are shared between readers at one place: the first one is followed by one of the other kind.
  for (const access of ['admin', 'viewer', 'member', 'admin'] as const) {
    const { records } = await page(`?from=${next}`, await api.tokenFor(access))
    expect(records.map((record) => record.value)).toEqual([shown[access]])
    const reader = await stream(`?from=${next}`, undefined, access)
    await eventually('it came', () => reader.records().length === 1)
    expect(reader.records()[0]!.data.value).toEqual(shown[access])
    reader.cut()
  }
  const token = await api.tokenFor('member')
  expect((await api.call('GET', `/api/v1/log/topics/${topic}/tail`, { token })).status).toBe(403)
})

test('a stream that cannot begin is a problem document, and streams and waiting pages share the places', async () => {
  const token = await api.idTokenOf('many-records', { access: 'viewer' })
  const url = `${api.baseUrl}${pathOf()}`
  const refused = await fetch(`${url}?from=e9/0:1`, {
    headers: { accept: 'text/event-stream', authorization: `Bearer ${token}` },
  })
  expect(refused.status).toBe(410)
  const left = new AbortController()
  const { next } = await page('?from=end')
  const headers = { authorization: `Bearer ${token}` }
  const waiting = Array.from({ length: 10 }, () =>
    fetch(`${url}?from=${next}&wait=60`, { headers, signal: left.signal }).catch(() => undefined),
  )
  await eventually('no place is left', async () => (await refusal('', token)).code === 'too_many_streams')
  left.abort()
  await Promise.all(waiting)
  await eventually('places are free again', async () => (await refusal('', token)).status === 200)
})

test('the client reads present records, follows on behind a position, and ends with its signal', async () => {
  const { key } = await api.issueKey('records-client', { access: 'viewer' })
  const client = createMainApi({ baseUrl: api.baseUrl, agentKey: key })
  onTestFinished(() => client.close())
  const before = await write(30, 'CLIENT')
  const there: TopicRecord<{ task_id: string }>[] = []
  const present = client.records<{ task_id: string }>(topic, {
    from: (await page('?from=end')).next,
    follow: false,
  })
  for await (const record of present) there.push(record)
  expect(there).toEqual([])
  const { earliest } = await refusal('?from=e9/0:0')
  for await (const record of client.records<{ task_id: string }>(topic, {
    from: String(earliest),
    follow: false,
  })) {
    there.push(record)
  }
  expect(numbersOf(there)).toEqual(expect.arrayContaining(before))
  const stop = new AbortController()
  const followed: string[] = []
  const behind = there.at(-11)!.position
  const reading = (async () => {
    for await (const record of client.records<{ task_id: string }>(topic, {
      from: behind,
      signal: stop.signal,
    })) {
      followed.push(record.value!.task_id)
    }
  })()
  const after = await write(20, 'CLIENT')
  await eventually('all came', () => followed.length >= 30)
  stop.abort()
  await reading
  expect(sorted(followed)).toEqual(sorted([...numbersOf(there.slice(-10)), ...after]))
  await expect(client.records(topic, { from: 'e9/0:0' }).next()).rejects.toMatchObject({
    code: 'position_expired',
    members: { earliest },
  })
})
