/** Pages of large rows: they end by bytes, lose and repeat nothing, and keep no memory for readers that do not read. */

import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createClient, createMainApi } from '#client/client.ts'
import { listGoalsAction } from '#operations/goals.ts'
import { listNotesAction, showNoteAction } from '#operations/notes.ts'
import {
  answers,
  answersBytesMax,
  callerBytesMax,
  heldBytesPerPiece,
  pageBytesMax,
} from '#runtime/http/answers.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'
import { operating } from '../support/operator.ts'

const threadId = '11111111-2222-3333-4444-555555555555'
const rows = 40
const ids = Array.from({ length: rows }, (_, n) => n + 1)

let hub: HubPlatform
let key: string
let token: string
beforeAll(async () => {
  hub = await openHubPlatform()
  key = await hub.keyFor('viewer')
  token = await hub.tokenFor('viewer')
  const { relational } = hub.platform.engines
  // Every other text doubles as JSON; each tenth is small.
  const text = `case when n % 10 = 0 then 'small' when n % 2 = 0 then repeat('"', 127000) else repeat('é', 127000) end`
  await relational.query(
    `insert into platform.notes (thread_id, subject, body, priority, status, author, author_uid)
     select '${threadId}', 'note ' || n, ${text}, 'normal', 'active', 'whale', 'agent_x' from generate_series(1, ${rows}) n`,
  )
  await relational.query(
    `insert into platform.goals (title, description, priority, status, author, author_uid)
     select 'goal ' || n, repeat('x', 60000), 'normal', 'pending', 'whale', 'agent_x' from generate_series(1, 150) n`,
  )
})
afterAll(() => hub?.close())

interface Row {
  id: number
  body?: string
}

/** All pages that links lead to. */
async function pagesFrom(base: string, path: string, credential: string) {
  const pages: { rows: Row[]; bytes: number }[] = []
  for (let next: string | undefined = path; next !== undefined; ) {
    const { status, json, text, headers } = await call(base, next, { key: credential })
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
    const rows = (Array.isArray(json) ? json : json.data) as Row[]
    pages.push({ rows, bytes: Buffer.byteLength(text) })
    next = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
  }
  return pages
}

const places = [
  { name: 'notes', path: '/fleet_notes', order: -1, count: rows },
  { name: 'a thread', path: '/fleet_notes/1/thread', order: 1, count: rows },
  { name: 'filtered notes', path: '/fleet_notes?author=whale', order: -1, count: rows },
  { name: 'goals', path: '/goals', order: -1, count: 150 },
]
for (const { name, path, order, count } of places) {
  const asked = `${path}${path.includes('?') ? '&' : '?'}limit=1000`
  test(`${name} in pages of 4 MiB at the hub and the main API, each row once and in order`, async () => {
    const pages = await pagesFrom(hub.hubUrl, asked, key)
    expect(pages.length).toBeGreaterThan(1)
    for (const { rows, bytes } of pages)
      expect([rows.length > 0, bytes <= pageBytesMax]).toEqual([true, true])
    // No page ends long before it has to.
    for (const { bytes } of pages.slice(0, -1)) expect(bytes).toBeGreaterThan(pageBytesMax / 2)
    const ids = pages.flatMap(({ rows }) => rows.map(({ id }) => id))
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => order * (a - b)))
    expect(ids.length).toBe(count)
    const copy = await pagesFrom(hub.baseUrl, `/api/v1${asked}`, token)
    expect(copy.map((page) => page.rows)).toEqual(pages.map((page) => page.rows))
  })
}

test('a limit counts as well: pages of 7 large rows have 7', async () => {
  const pages = await pagesFrom(hub.hubUrl, '/fleet_notes?limit=7', key)
  expect(pages.map((page) => page.rows.length)).toEqual([7, 7, 7, 7, 7, 5])
})

test('rows that come while a reader goes from page to page move nothing', async () => {
  const seen: number[] = []
  for (let next: string | undefined = '/fleet_notes?limit=1000&author=whale'; next !== undefined; ) {
    const { json, headers } = await call(hub.hubUrl, next, { key })
    seen.push(...(json as unknown as Row[]).map(({ id }) => id))
    next = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
    await hub.platform.engines.relational.query(
      `insert into platform.notes (thread_id, subject, body, priority, status, author, author_uid)
       values (gen_random_uuid(), 'late', repeat('z', 200000), 'normal', 'active', 'late', 'agent_y')`,
    )
  }
  expect(seen).toEqual(Array.from({ length: rows }, (_, n) => rows - n))
})

test('the client follows short pages to the end', async () => {
  const { privateKeyPem } = await hub.provision({ agentId: 'reader' })
  const { key: agentKey } = await hub.issueKey('reader')
  const client = createClient({
    vectorUrl: hub.vectorUrl,
    hubUrl: hub.hubUrl,
    agentId: 'reader',
    privateKeyPem,
  })
  const api = createMainApi({ baseUrl: hub.baseUrl, agentKey })
  for (const { notes } of [client, api]) {
    const ids: number[] = []
    for await (const { id } of notes.all({ limit: 1_000, author: 'whale' })) ids.push(id)
    expect(ids.length).toBe(rows)
  }
})

test('the command line gets all rows, in messages of a page each', async () => {
  const messages: number[] = []
  let seen: number[] = []
  const output = {
    item(some: object[]) {
      messages.push(JSON.stringify(some).length)
      seen.push(...(some as Row[]).map(({ id }) => id))
    },
    progress() {},
  }
  const context = { ...operating(hub.platform), output }
  const list = await listNotesAction.run(context, { limit: 1_000, author: 'whale' })
  expect(messages.length).toBeGreaterThan(0)
  expect([...seen, ...list.notes.map(({ id }) => id)]).toEqual(ids.toReversed())
  seen = []
  const shown = await showNoteAction.run(context, { id: 1 })
  expect([...seen, ...shown.thread.map(({ id }) => id)]).toEqual(ids)
  seen = []
  const { goals } = await listGoalsAction.run(context, { limit: 1_000 })
  expect(seen.length + goals.length).toBe(150)
  expect(Math.max(...messages)).toBeLessThanOrEqual(pageBytesMax)
})

test('a reader that takes nothing holds a piece for each of its answers, and gives them back when it leaves', async () => {
  const { hostname, port } = new URL(hub.hubUrl)
  const socket = connect(Number(port), hostname)
  // Four pages, one behind the other, are more than the connection itself holds.
  for (const path of ['/fleet_notes', '/fleet_notes/1/thread', '/fleet_notes', '/goals']) {
    socket.write(
      `GET ${path}?limit=1000 HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n\r\n`,
    )
  }
  await once(socket, 'readable')
  await eventually('all have begun', () => answers.heldBytes() > 2 * heldBytesPerPiece)
  expect(answers.heldBytes()).toBeLessThanOrEqual(4 * heldBytesPerPiece)
  socket.destroy()
  await eventually('the budget is free', () => answers.heldBytes() === 0)
})

test('a full budget is 503 with retryAfter, and lists are answered again when it is free', async () => {
  const releases = await Promise.all(
    ['a', 'b', 'c', 'd'].map((caller) => answers.take(caller, answersBytesMax)),
  )
  expect(answers.heldBytes()).toBe(4 * callerBytesMax)
  const refused = await call(hub.hubUrl, '/fleet_notes', { key })
  expect([refused.status, refused.json.code, refused.json.retryAfter]).toEqual([503, 'overloaded', 1])
  const waiting = call(hub.hubUrl, '/fleet_notes', { key })
  for (const release of releases) release()
  expect((await waiting).status).toBe(200)
  await eventually('the budget is free', () => answers.heldBytes() === 0)
})
