/** Goals over HTTP: answers and refusals. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Answer } from '../support/gateway-call.ts'
import { type HubPlatform, openHubPlatform } from '../support/hub-platform.ts'

let hub: HubPlatform
let author: string
beforeAll(async () => {
  hub = await openHubPlatform()
  author = await hub.keyOf('author')
})
afterAll(() => hub?.close())

const post = (body: unknown = { title: 'Ship it' }) => hub.call('POST', '/goals/', { key: author, body })
const codes = ({ status, json }: Answer) => [status, json.code]

test('a goal is answered with its fields and its version', async () => {
  const made = await post({ title: 't', description: 'd', priority: 'urgent', status: 'pending' })
  expect(made.status).toBe(201)
  expect(made.json).toEqual({
    id: expect.any(Number),
    title: 't',
    description: 'd',
    priority: 'urgent',
    status: 'pending',
    author: 'author',
    created_at: expect.any(String),
    updated_at: made.json.created_at,
  })
  expect(made.headers.get('location')).toBe(`/goals/${made.json.id}`)
  const shown = await hub.call('GET', `/goals/${made.json.id}/`, { key: author })
  expect([shown.json, shown.headers.get('etag')]).toEqual([made.json, '"1"'])
  expect((await post()).json).toMatchObject({ description: '', priority: 'normal', status: 'pending' })
})

test('a goal that is faulty or too large is refused', async () => {
  for (const body of [
    {},
    { title: '' },
    { title: 't', status: 'active' },
    { title: 't', body: 'b' },
    { title: 'a\0' },
  ]) {
    expect(codes(await post(body))).toEqual([422, 'validation_failed'])
  }
  expect(codes(await post({ title: 't', description: 'x'.repeat(64 * 1024) }))).toEqual([
    413,
    'payload_too_large',
  ])
  const list = await hub.call('GET', '/goals/?thread_id=00000000-0000-4000-8000-000000000000', {
    key: author,
  })
  expect(codes(list)).toEqual([422, 'validation_failed'])
})

test('the status of a dispatch’s goal is not patched, its text is', async () => {
  const { json } = await post()
  await hub.platform.engines.relational.query(
    `update platform.goals set of_dispatch = true, status = 'active' where id = $1`,
    [Number(json.id)],
  )
  const change = (body: object) => hub.call('PATCH', `/goals/${json.id}`, { key: author, body })
  expect(codes(await change({ status: 'completed' }))).toEqual([409, 'goal_of_dispatch'])
  expect((await change({ description: 'more' })).status).toBe(200)
})
