/** The live tail of a topic: what it shows, how it goes on after a cut, what a slow or dead reader does, and its end. */

import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { positionText, readPosition } from '#operations/topic-stream/position.ts'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { deleteAgent, updateAgent } from '#services/access/agents/agents.ts'
import { fleetEvents } from '#topics/catalog.ts'
import { type EventReader, readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { exchange, type MainApiPlatform, openMainApiPlatform, trade } from '../support/main-api-platform.ts'

let api: MainApiPlatform
const open: { cut(): void }[] = []
beforeAll(async () => {
  api = await openMainApiPlatform()
})
afterEach(() => {
  for (const one of open.splice(0)) one.cut()
})
afterAll(() => api.close())

const topic = fleetEvents.name

async function tail(query = '', lastEventId?: string, token?: string, of = topic): Promise<EventReader> {
  const url = `${api.baseUrl}/api/v1/log/topics/${of}/tail${query}`
  const reader = await readEvents(url, { token: token ?? (await api.tokenFor('admin')), lastEventId })
  open.push(reader)
  return reader
}

let written = 0
/** Records of which each has a number; no target takes them. */
async function write(
  count: number,
  { agent = 'ATLAS', result = '{}', key }: { agent?: string; result?: string; key?: string } = {},
): Promise<number[]> {
  const numbers = Array.from({ length: count }, () => ++written)
  const { publisher } = api.platform
  await publisher.publish(
    fleetEvents,
    numbers.map((n) => ({
      key: key ?? `${agent}-${n % 20}`,
      value: { event: 'task.completed', agent, task_id: `n-${n}`, result, ts: 1 },
      headers: { agent, 'request-id': `req-${n}` },
    })),
  )
  return numbers
}

const records = (reader: EventReader) => reader.events.filter(({ event }) => event === 'message')
const numbersOf = (reader: EventReader) =>
  records(reader).map(({ data }) => Number(data.value.task_id.slice(2)))
const sorted = (numbers: number[]) => [...numbers].sort((a, b) => a - b)

/** Resolves when it is open, follows the log, and has shown every probe that it will: they share a key, so the last ends them. */
async function following(reader: EventReader, { agent = 'probe' } = {}): Promise<EventReader> {
  expect(reader.status).toBe(200)
  const probe = { agent, key: `${agent}-probe` }
  await eventually('the stream follows the log', async () => {
    await write(1, probe)
    await sleep(100)
    return numbersOf(reader).length > 0
  })
  const [last] = await write(1, probe)
  await eventually('the last probe is shown', () => numbersOf(reader).includes(last!))
  reader.events.length = 0
  return reader
}

test('shows records as they come, decoded', async () => {
  const reader = await following(await tail())
  expect(reader.headers.get('content-type')).toMatch(/^text\/event-stream/)
  expect(reader.headers.get('cache-control')).toBe('no-store')
  const [number] = await write(1)
  await eventually('it is shown', () => numbersOf(reader).includes(number!))
  const shown = records(reader).find(({ data }) => data.value.task_id === `n-${number}`)!
  expect(shown.id).toMatch(/^\d+:\d+(,\d+:\d+)*$/)
  expect(shown.data).toEqual({
    partition: expect.any(Number),
    offset: expect.any(Number),
    timestamp: expect.stringMatching(/Z$/),
    key: `ATLAS-${number! % 20}`,
    headers: expect.objectContaining({ agent: 'ATLAS', 'request-id': `req-${number}` }),
    value: { event: 'task.completed', agent: 'ATLAS', task_id: `n-${number}`, result: '{}', ts: 1 },
    of: 1,
  })
})

test('goes on without a gap after the connection was cut, however often', async () => {
  const first = await following(await tail())
  const all: number[] = await write(30)
  await eventually('some are shown', () => numbersOf(first).length >= 10)
  first.cut()
  await first.over
  const seen = numbersOf(first)
  let lastId = first.lastId()
  for (let round = 0; round < 3; round++) {
    all.push(...(await write(120)))
    const next = await tail('', lastId)
    await eventually('more are shown', () => numbersOf(next).length >= 60)
    all.push(...(await write(20)))
    await sleep(round * 30)
    next.cut()
    await next.over
    seen.push(...numbersOf(next))
    lastId = next.lastId()
  }
  const last = await tail('', lastId)
  await eventually('the rest is shown', () => seen.length + numbersOf(last).length >= all.length)
  await sleep(300)
  expect(sorted([...seen, ...numbersOf(last)])).toEqual(all)
})

test('a heartbeat carries the id, so that a stream of rare records does not begin far behind', async () => {
  const reader = await tail('?key=never')
  await write(5)
  const before = reader.lastId()
  await eventually('an id came without an event', () => reader.lastId() !== before)
  expect(reader.comments).toContain('heartbeat')
  expect(reader.events).toEqual([])
  const again = await tail('', reader.lastId())
  const numbers = await write(2)
  await eventually('only new records are shown', () => numbersOf(again).length === 2)
  expect(sorted(numbersOf(again))).toEqual(numbers)
})

test('shows the records asked for: a partition, key, header, text, and from where', async () => {
  const agent = `FILTERED-${written}`
  const needle = `needle${written}`
  const numbers = await write(8, { agent, result: `{"summary":"N${needle.slice(1)} in It"}` })
  const n = numbers[0]!
  const key = `${agent}-${n % 20}`
  const of = async (query: string, count: number) => {
    const reader = await tail(query)
    await eventually(`${query} shows ${count}`, () => records(reader).length >= count)
    await sleep(100)
    reader.cut()
    return sorted(numbersOf(reader))
  }
  expect(await of(`?from=beginning&key=${key}`, 1)).toEqual(numbers.filter((one) => one % 20 === n % 20))
  expect(await of(`?from=beginning&header=agent:${agent}`, 8)).toEqual(numbers)
  expect(await of(`?from=beginning&q=${needle}%20IN`, 8)).toEqual(numbers)
  expect(await of(`?from=beginning&q=req-${n}&header=agent:${agent}`, 1)).toContain(n)
  const reader = await tail(`?from=beginning&key=${key}`)
  await eventually('it is shown', () => records(reader).length > 0)
  const { partition, offset } = records(reader).at(-1)!.data
  expect(await of(`?partition=${partition}&from=${offset}&key=${key}`, 1)).toHaveLength(1)
  expect(await of(`?from=-1&header=agent:${agent}`, 1)).not.toHaveLength(0)
})

test('shows a burst whole, while fewer come in a second than are shown', async () => {
  const reader = await following(await tail('?header=agent:BURST'), {
    agent: 'BURST',
  })
  const numbers = await write(150, { agent: 'BURST' })
  await eventually('all are shown', () => numbersOf(reader).length >= 150)
  expect(sorted(numbersOf(reader))).toEqual(numbers)
  expect(records(reader).every(({ data }) => data.of === 1)).toBe(true)
})

test('cuts long values, with a mark', async () => {
  const agent = `LONG-${written}`
  const [number] = await write(1, { agent, result: JSON.stringify('x'.repeat(100_000)) })
  const reader = await tail(`?from=beginning&header=agent:${agent}`)
  await eventually('it is shown', () => records(reader).length === 1)
  const { value, cut } = records(reader)[0]!.data
  expect(value).toHaveLength(8_192)
  expect(value).toContain(`"task_id":"n-${number}"`)
  expect(cut).toEqual({ length: expect.any(Number) })
  expect(cut.length).toBeGreaterThan(100_000)
})

test('shows at most 200 a second, each with the number that it is there for', async () => {
  const flood = await tail('?q=task')
  await following(flood)
  const began = performance.now()
  let sent = 0
  for (let n = 0; n < 8; n++) sent += (await write(500, { agent: 'FLOOD' })).length
  const shownFor = () =>
    records(flood).reduce((sum, { data }) => sum + data.of, 0) +
    flood.events.filter(({ event }) => event === 'skipped').reduce((sum, { data }) => sum + data.records, 0)
  await eventually('all are accounted for', () => shownFor() === sent)
  // A slow machine only takes longer.
  const tookS = (flood.events.at(-1)!.at - began) / 1_000
  expect(records(flood).length).toBeLessThanOrEqual(200 * (tookS + 1))
  expect(records(flood).length).toBeGreaterThan(100)
})

test('the eleventh stream of a caller is refused, and a place that was given back is free', async () => {
  const token = await api.idTokenOf('many', { access: 'admin' })
  const readers: EventReader[] = []
  for (let n = 0; n < 10; n++) readers.push(await tail('', undefined, token))
  const path = `/api/v1/log/topics/${topic}/tail`
  const refused = await api.call('GET', path, { token })
  expect(refused).toMatchObject({ status: 429, json: { code: 'too_many_streams' } })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  // They hold no slot of its concurrency, and nobody else's place.
  expect((await api.call('GET', '/api/v1/me', { token })).status).toBe(200)
  expect((await tail()).status).toBe(200)
  readers[3]!.cut()
  await eventually('a place is free', async () => {
    const reader = await tail('', undefined, token)
    return reader.status === 200
  })
})

test('ends when its agent key is revoked, its role lowered, or its agent deleted', async () => {
  const { relational } = api.platform.engines
  for (const how of ['revoked', 'lowered', 'deleted'] as const) {
    const agentId = `ending-${how}`
    const { key, id } = await api.issueKey(agentId, { access: 'admin' })
    const token = await exchange(api.call, await trade(api.call, key))
    const reader = await following(await tail('', undefined, token))
    if (how === 'revoked') await revokeAgentKey(relational, id)
    else if (how === 'lowered') await updateAgent(relational, agentId, { access: 'viewer' })
    else await deleteAgent(relational, agentId)
    expect(await reader.over).toBe(true)
    expect(reader.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'unauthorized' } })
  }
})

test('an invalid id is refused; one of another log begins again', async () => {
  const token = await api.tokenFor('admin')
  const path = `/api/v1/log/topics/${topic}/tail`
  const reader = await following(await tail())
  await write(1)
  await eventually('an id came', () => reader.lastId() !== undefined)
  const good = reader.lastId()!
  const garbage = ['x', '0', '-1', 'AAAA', '🙂', `${good},`, `${good}A`, `e1/${good}`, '0:1,'.repeat(1_500)]
  for (const id of garbage) {
    const answer = await api.call('GET', path, {
      token,
      headers: { 'last-event-id': encodeURIComponent(id) },
    })
    expect([id, answer.status, answer.json.code]).toEqual([id, 422, 'validation_failed'])
  }
  const { next } = readPosition(good, 'id')
  const foreign = [
    positionText({ epoch: 7, next }),
    positionText({ epoch: 1, next: new Map([...next].map(([one, offset]) => [one, offset + 1_000_000])) }),
  ]
  for (const id of foreign) {
    const begun = await tail('', id)
    await eventually('it says so', () => begun.events.length > 0)
    expect(begun.events[0]).toMatchObject({ event: 'reset' })
    begun.cut()
  }
})

test.each([
  '?partition=99',
  '?partition=x',
  '?partition=-1',
  '?from=yesterday',
  '?from=5',
  '?header=agent',
  '?q=',
  `?q=${'x'.repeat(300)}`,
  '?follow=true',
  '?key=a&key=b',
])('refuses %s', async (query) => {
  const token = await api.tokenFor('admin')
  const answer = await api.call('GET', `/api/v1/log/topics/${topic}/tail${query}`, { token })
  expect([404, 422]).toContain(answer.status)
})

test('a reader that does not read misses records, is given their number, and costs no memory', async () => {
  const token = await api.tokenFor('admin')
  const { hostname, port } = new URL(api.baseUrl)
  const socket: Socket = connect(Number(port), hostname)
  open.push({ cut: () => socket.destroy() })
  socket.write(
    `GET /api/v1/log/topics/${topic}/tail?header=agent:WIDE HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`,
  )
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  await eventually('it is open', () => text.includes(': open'))
  await sleep(500)
  socket.pause()
  const result = JSON.stringify('w'.repeat(7_000))
  const before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
  // Four times what the connection and its buffer hold.
  for (let n = 0; n < 40; n++) {
    await write(100, { agent: 'WIDE', result })
    await sleep(100)
  }
  const after = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
  expect(after - before).toBeLessThan(200 * 1024 * 1024)
  socket.resume()
  const skipped = () =>
    [...text.matchAll(/event: skipped\nid: \S+\ndata: (\{.*\})\n/g)].map((one) => JSON.parse(one[1]!))
  await eventually('it is given the number', () => skipped().some(({ reason }) => reason === 'slow'))
  const [newest] = await write(1, { agent: 'WIDE' })
  await eventually('and is shown the newest', () => text.includes(`"task_id":"n-${newest}"`))
})

test('a stop ends every stream with a word', async () => {
  const other = await openMainApiPlatform()
  const token = await other.tokenFor('admin')
  const reader = await readEvents(`${other.baseUrl}/api/v1/log/topics/${topic}/tail`, { token })
  await other.close()
  expect(await reader.over).toBe(true)
  expect(reader.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'shutting_down' } })
})
