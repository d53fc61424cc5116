/** Notes over HTTP: permissions, answers, threads, pages, versions, repeats and hostile texts. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Answer, call as bareCall } from '../support/gateway-call.ts'
import { type HubCall, type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'

let hub: HubPlatform
let key: string
beforeAll(async () => {
  hub = await openHubPlatform()
  key = await hub.keyFor('member')
})
afterAll(() => hub?.close())

const note = { subject: 'Deploying', body: 'It runs.' }
const post = (body: unknown = note, given: HubCall = {}) =>
  hub.call('POST', '/fleet_notes/', { key, body, ...given })
const get = (path: string, given: HubCall = {}) => hub.call('GET', path, { key, ...given })
const patch = (id: unknown, body: unknown, given: HubCall = {}) =>
  hub.call('PATCH', `/fleet_notes/${id}`, { key, body, ...given })
const codes = ({ status, json }: Answer) => [status, json.code]
const idsOf = (answer: Answer) => (answer.json as unknown as { id: number }[]).map(({ id }) => id)

test('a note is answered with its fields, its address and its version', async () => {
  const made = await post({ ...note, priority: 'high', status: 'active' })
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
  expect(made.status).toBe(201)
  expect(made.json).toEqual({
    id: expect.any(Number),
    ...note,
    priority: 'high',
    status: 'active',
    thread_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    parent_id: null,
    author: 'key-member',
    created_at: expect.stringMatching(time),
    updated_at: made.json.created_at,
  })
  expect(made.headers.get('location')).toBe(`/fleet_notes/${made.json.id}`)
  expect(made.headers.get('etag')).toBe('"1"')
  const shown = await get(made.headers.get('location')!)
  expect([shown.status, shown.json, shown.headers.get('etag')]).toEqual([200, made.json, '"1"'])
})

test('every path works with and without a slash at its end', async () => {
  const { json } = await hub.call('POST', '/fleet_notes', { key, body: note })
  for (const path of ['', `/${json.id}`, `/${json.id}/thread`]) {
    const [one, other] = [await get(`/fleet_notes${path}`), await get(`/fleet_notes${path}/`)]
    expect([path, one.status, one.text]).toEqual([path, 200, other.text])
  }
  expect((await patch(`${json.id}/`, { priority: 'low' })).json.priority).toBe('low')
})

describe('who may', () => {
  test('without a credential nobody is let in', async () => {
    for (const given of [undefined, `vk_live_${'a'.repeat(43)}`, 'a.b.c', 'x']) {
      const answer = await bareCall(hub.hubUrl, '/fleet_notes/', given === undefined ? {} : { key: given })
      expect(codes(answer)).toEqual([401, 'unauthorized'])
    }
  })

  test('an ID token and a gateway key are the same agent', async () => {
    const byKey = await hub.keyOf('both')
    const byToken = await hub.idTokenOf('both')
    const made = await post(note, { key: byToken })
    expect(made.json.author).toBe('both')
    expect((await patch(made.json.id, { body: 'changed' }, { key: byKey })).status).toBe(200)
  })

  test('a viewer reads, and is refused before its body is read', async () => {
    const viewer = await hub.keyFor('viewer')
    expect((await get('/fleet_notes/', { key: viewer })).status).toBe(200)
    expect(codes(await post('no JSON', { key: viewer }))).toEqual([403, 'forbidden'])
    expect(codes(await patch(1, 'no JSON', { key: viewer }))).toEqual([403, 'forbidden'])
  })

  test('the author changes a note, and an admin, and nobody else', async () => {
    const { json } = await post()
    const other = await hub.keyOf('somebody')
    expect(codes(await patch(json.id, { body: 'x' }, { key: other }))).toEqual([403, 'forbidden'])
    const changed = await patch(json.id, { body: 'x' }, { key: await hub.keyFor('admin') })
    expect([changed.status, changed.json.author]).toEqual([200, 'key-member'])
  })

  test('burst and concurrency count, the day does not', async () => {
    const busy = await hub.keyOf('busy', { tier: 'agent', quota: 1, burst: 5 })
    const answers = await Promise.all(Array.from({ length: 20 }, () => get('/fleet_notes/', { key: busy })))
    const seen = new Set(answers.map(({ status, json }) => json.code ?? status))
    expect(seen).toContain(200)
    expect(
      [...seen].filter((one) => one !== 200 && one !== 'rate_limited' && one !== 'too_many_concurrent'),
    ).toEqual([])
    expect(answers[0]!.headers.get('ratelimit-policy')).toBe(
      '"second";q=5;w=1, "concurrent";q=5;qu="concurrent-requests"',
    )
  })
})

test('threads: joined by parent or by id, refused where they do not agree', async () => {
  const root = await post()
  const reply = await post({ ...note, parent_id: root.json.id })
  const { thread_id } = root.json
  expect(reply.json).toMatchObject({ thread_id, parent_id: root.json.id })
  const joined = await post({ ...note, thread_id })
  expect(joined.json).toMatchObject({ thread_id, parent_id: null })
  const other = await post()
  const mismatch = await post({ ...note, parent_id: root.json.id, thread_id: other.json.thread_id })
  expect(codes(mismatch)).toEqual([409, 'thread_mismatch'])
  expect(codes(await post({ ...note, parent_id: 2 ** 50 }))).toEqual([422, 'unknown_parent'])
  const unknown = { ...note, thread_id: '00000000-0000-4000-8000-000000000000' }
  expect(codes(await post(unknown))).toEqual([422, 'unknown_thread'])
  expect(codes(await post({ ...note, thread_id: 'x' }))).toEqual([422, 'validation_failed'])
  const all = [root, reply, joined].map(({ json }) => json.id)
  expect(idsOf(await get(`/fleet_notes/${reply.json.id}/thread`))).toEqual(all)
  expect(idsOf(await get(`/fleet_notes/?thread_id=${thread_id}`))).toEqual(all.toReversed())
})

test('a list is filtered and paged, and its pages hold each note once while others come and go', async () => {
  const lister = await hub.keyOf('lister')
  const made: number[] = []
  for (let n = 0; n < 12; n++) {
    made.push(Number((await post({ ...note, priority: n % 2 ? 'low' : 'urgent' }, { key: lister })).json.id))
  }
  const { relational } = hub.platform.engines
  const seen: number[] = []
  let path = '/fleet_notes/?author=lister&limit=5'
  for (;;) {
    const answer = await get(path)
    seen.push(...idsOf(answer))
    const next = /^<(.*)>; rel="next"$/.exec(answer.headers.get('link') ?? '')?.[1]
    if (next === undefined) break
    path = next
    await post(note, { key: lister })
    await relational.query('delete from platform.notes where id = any($1::bigint[])', [[made[9]!, made[1]!]])
  }
  expect(seen).toEqual(made.toReversed().filter((id) => id !== made[1]))
  const urgent = await get('/fleet_notes/?author=lister&priority=urgent&status=active')
  expect(idsOf(urgent)).toEqual(made.filter((_, n) => n % 2 === 0).toReversed())
  expect(idsOf(await get('/fleet_notes/?author=nobody'))).toEqual([])
})

test.each([
  'limit=0',
  'limit=1001',
  'limit=x',
  'cursor=x',
  'cursor=aWQ6MQ==',
  'status=gone',
  'thread_id=1',
  'more=1',
  'author=%00',
  'limit=1&limit=2',
])('the query %s is refused', async (query) => {
  expect(codes(await get(`/fleet_notes/?${query}`))).toEqual([422, 'validation_failed'])
})

describe('versions', () => {
  test('a change on a version that is no more the present one is refused', async () => {
    const { json } = await post()
    const stale = { headers: { 'if-match': '"1"' } }
    const first = await patch(json.id, { subject: 'first' }, stale)
    expect([first.status, first.headers.get('etag')]).toEqual([200, '"2"'])
    expect(codes(await patch(json.id, { subject: 'second' }, stale))).toEqual([412, 'precondition_failed'])
    expect((await patch(json.id, { subject: 'third' }, { headers: { 'if-match': '"9", "2"' } })).status).toBe(
      200,
    )
    expect((await patch(json.id, { subject: 'fourth' }, { headers: { 'if-match': '*' } })).status).toBe(200)
    expect(codes(await patch(json.id, { subject: 'x' }, { headers: { 'if-match': 'W/"4"' } }))[0]).toBe(412)
    expect((await get(`/fleet_notes/${json.id}`)).json.subject).toBe('fourth')
  })

  test('with If-Match one of two changes at once is refused, without it both are done', async () => {
    const { json } = await post()
    const headers = { 'if-match': '"1"' }
    const strict = await Promise.all(['a', 'b'].map((body) => patch(json.id, { body }, { headers })))
    expect(strict.map(({ status }) => status).sort()).toEqual([200, 412])
    const free = await Promise.all(['c', 'd'].map((body) => patch(json.id, { body })))
    expect(free.map(({ headers }) => headers.get('etag')).sort()).toEqual(['"3"', '"4"'])
  })

  test('an empty change keeps the version and the time', async () => {
    const { json } = await post()
    for (const body of [{}, { status: 'active' }, { subject: note.subject }]) {
      const answer = await patch(json.id, body)
      expect([answer.status, answer.json, answer.headers.get('etag')]).toEqual([200, json, '"1"'])
    }
  })

  test('a status that may not follow is refused', async () => {
    const { json } = await post()
    expect((await patch(json.id, { status: 'archived' })).json.status).toBe('archived')
    expect(codes(await patch(json.id, { status: 'resolved' }))).toEqual([409, 'invalid_transition'])
  })
})

test('an absent note is not found', async () => {
  for (const id of ['999999999', '0', 'x', '1e3', '99999999999999999999', '%00', '-1']) {
    expect([id, ...codes(await get(`/fleet_notes/${id}`))]).toEqual([id, 404, 'not_found'])
    expect(codes(await patch(id, {}))).toEqual([404, 'not_found'])
    expect(codes(await get(`/fleet_notes/${id}/thread`))).toEqual([404, 'not_found'])
  }
})

describe('texts', () => {
  test.each([
    ['right to left', 'مرحبا \u202e שלום'],
    ['emojis', '🐋'.repeat(512)],
    ['markup', '<script>alert(1)</script> **bold** {{x}} $1 %s'],
    ['SQL', "'; drop table platform.notes; --"],
    ['control characters', '\u0001\t\n\r\u007f\u2028'],
    ['prototypes', '__proto__'],
  ])('%s are given back as they were sent', async (_, text) => {
    const made = await post({ subject: text.slice(0, 1_024), body: text })
    expect([made.status, made.json.body]).toEqual([201, text])
    expect((await get(`/fleet_notes/${made.json.id}`)).json).toEqual(made.json)
  })

  test.each([
    ['NUL', { ...note, body: 'a\0b' }],
    ['NUL in the subject', { ...note, subject: '\0' }],
    ['an empty subject', { ...note, subject: '' }],
    ['a subject of 513 characters', { ...note, subject: 'x'.repeat(513) }],
    ['no body', { subject: 's' }],
    ['a number', { ...note, body: 1 }],
    ['an unknown field', { ...note, author: 'me' }],
    ['an unknown priority', { ...note, priority: 'huge' }],
    ['another status than active', { ...note, status: 'resolved' }],
    ['a parent that is no number', { ...note, parent_id: '1' }],
    ['half a surrogate pair', '{"subject":"s","body":"\\ud83d"}'],
  ])('%s is refused', async (_, body) => {
    const answer = await post(body)
    expect(codes(answer)).toEqual([422, 'validation_failed'])
    expect((answer.json.errors as object[]).length).toBeGreaterThan(0)
  })

  test('a body of 256 KiB fits, and more does not', async () => {
    const around = JSON.stringify({ ...note, body: '' }).length
    const fits = 'x'.repeat(256 * 1024 - around)
    expect((await post({ ...note, body: fits })).status).toBe(201)
    expect(codes(await post({ ...note, body: `${fits}x` }))).toEqual([413, 'payload_too_large'])
    expect(codes(await post({ ...note, body: 'x'.repeat(1024 * 1024) }))).toEqual([413, 'payload_too_large'])
  })
})

test('the same Idempotency-Key gives the first answer again, headers included', async () => {
  const headers = { 'idempotency-key': 'note-1' }
  const first = await post(note, { headers })
  await patch(first.json.id, { subject: 'later' })
  const again = await post(note, { headers })
  for (const name of ['location', 'etag']) expect(again.headers.get(name)).toBe(first.headers.get(name))
  expect([again.status, again.json]).toEqual([201, first.json])
  expect(codes(await post({ ...note, body: 'other' }, { headers }))).toEqual([409, 'idempotency_conflict'])
  const goal = await hub.call('POST', '/goals/', { key, headers, body: { title: 'a goal' } })
  expect(goal.json.title).toBe('a goal')
})
