/** Messages to all agents: runs, goal, conclusion, streams. */

import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { call as bareCall } from '#test/support/gateway-call.ts'
import { agents, message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'
import { echoScript } from '#test/support/scripted-node.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())
afterEach(() => {
  for (const slug of agents) platform.script(slug, echoScript)
})

const dispatch = (fields: object, headers: Record<string, string> = {}) =>
  platform.call('POST', '/dispatch', { body: fields, headers })

async function over(goalId: unknown) {
  let found: Record<string, unknown> = {}
  await eventually('the dispatch ends', async () => {
    found = (await platform.call('GET', `/dispatches/${goalId}`)).json
    return found.status !== 'running'
  })
  return found
}

const goalOf = async (id: unknown) =>
  (await bareCall(platform.hubUrl, `/goals/${id}`, { key: await platform.memberKey() })).json

describe('a dispatch', () => {
  it('reaches every agent but the orchestrator, and ends with its conclusion and a completed goal', async () => {
    platform.script('axon', () => [{ text: 'In short: all heard it.' }])
    const answer = await dispatch({
      message: 'Report, WHALE and PULSE.',
      sessionId: 's-all',
      userId: 'u-all',
    })
    expect(answer.status).toBe(202)
    const { goalId } = answer.json
    expect(answer.headers.get('location')).toBe(`/dispatches/${goalId}`)
    expect(answer.headers.get('x-session-id')).toBe('s-all')
    expect(answer.headers.get('x-user-id')).toBe('u-all')
    expect(answer.json).toMatchObject({
      userId: 'u-all',
      sessionId: 's-all',
      status: 'running',
      counts: { total: 5 },
      result: null,
    })
    expect((answer.json.runs as { agent: string }[]).map(({ agent }) => agent)).toEqual([
      'WHALE',
      'PULSE',
      'CIPHER',
      'ATLAS',
      'NEXUS',
    ])
    const done = await over(goalId)
    expect(done).toMatchObject({
      status: 'completed',
      counts: { total: 5, completed: 5, failed: 0 },
      result: 'In short: all heard it.',
    })
    expect(await goalOf(goalId)).toMatchObject({ status: 'completed', author: 'key-member' })
    const listed = (await platform.call('GET', `/runs?goalId=${goalId}`)).json as unknown as {
      trigger: string
    }[]
    expect(listed.filter(({ trigger }) => trigger === 'dispatch')).toHaveLength(5)
  })

  it('streams the events of all, with ids over all of them, and again when it is over', async () => {
    platform.script('axon', () => [{ text: 'Done.' }])
    const stream = await platform.stream('/dispatch', { body: { message: message('Report.') } })
    expect(stream.status).toBe(200)
    await stream.over
    expect(stream.ids()).toEqual([1, 2, 3, 4, 5, 6])
    const authors = stream.frames.map(({ data }) => data.author)
    expect(authors.slice(0, 5).sort()).toEqual(['ATLAS', 'CIPHER', 'NEXUS', 'PULSE', 'WHALE'])
    expect(authors.slice(5)).toEqual(['AXON', 'gateway'])
    expect(stream.end().dispatch).toMatchObject({ status: 'completed', result: 'Done.' })
    const path = `${stream.headers.get('location')}/events`
    const again = await platform.stream(path, { lastEventId: '4' })
    await again.over
    expect(again.ids()).toEqual([5, 6])
    const last = again.frames.at(-1)!.id!
    expect((await platform.stream(path, { lastEventId: last })).status).toBe(204)
  })

  it('is partial when some fail, and failed when all do', async () => {
    platform.script('cipher', () => [{ raise: 'broken' }])
    const some = await over((await dispatch({ message: 'x' })).json.goalId)
    expect(some).toMatchObject({ status: 'partial', counts: { completed: 4, failed: 1 } })
    expect(some.runs).toContainEqual(
      expect.objectContaining({
        agent: 'CIPHER',
        status: 'failed',
        error: expect.objectContaining({ code: 'agent_error' }),
      }),
    )
    for (const slug of agents) if (slug !== 'axon') platform.script(slug, () => [{ raise: 'broken' }])
    const none = await over((await dispatch({ message: 'x' })).json.goalId)
    expect(none.status).toBe('failed')
    expect((await goalOf(none.goalId)).status).toBe('failed')
  })

  it('ends without a conclusion when the orchestrator fails', async () => {
    platform.script('axon', () => [{ raise: 'no thoughts' }])
    const done = await over((await dispatch({ message: 'x' })).json.goalId)
    expect(done).toMatchObject({ status: 'completed', result: null })
  })

  it('is canceled with all its runs; its goal cannot be moved by hand', async () => {
    for (const slug of agents) if (slug !== 'axon') platform.script(slug, () => [{ hang: true }])
    const { goalId } = (await dispatch({ message: 'x' })).json
    const stream = await platform.stream(`/dispatches/${goalId}/events`)
    await eventually('all run', () => {
      const hanging = platform.node.runs.filter(({ app, endedAt }) => app !== 'axon' && endedAt === null)
      return hanging.length === 5
    })
    const moved = await bareCall(platform.hubUrl, `/goals/${goalId}`, {
      method: 'PATCH',
      key: await platform.memberKey(),
      body: { status: 'completed' },
    })
    expect([moved.status, moved.json.code]).toEqual([409, 'goal_of_dispatch'])
    const canceled = await platform.call('POST', `/dispatches/${goalId}/cancel`)
    expect([200, 202]).toContain(canceled.status)
    expect((await over(goalId)).status).toBe('canceled')
    expect((await goalOf(goalId)).status).toBe('canceled')
    await stream.over
    expect(stream.end().dispatch.status).toBe('canceled')
    const again = await platform.call('POST', `/dispatches/${goalId}/cancel`)
    expect([again.status, again.json.status]).toEqual([200, 'canceled'])
  })

  it('is made once under an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const [first, second] = [
      await dispatch({ message: 'x' }, headers),
      await dispatch({ message: 'x' }, headers),
    ]
    expect(second.json.goalId).toBe(first.json.goalId)
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    const other = await dispatch({ message: 'y' }, headers)
    expect([other.status, other.json.code]).toEqual([409, 'idempotency_conflict'])
  })

  it('is made once when its key comes nine times at once', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const key = await platform.keyOf('nine-at-once', { tier: 'research-agent', access: 'member' })
    const sent = { body: { message: 'x' }, headers, key }
    const nine = await Promise.all(Array.from({ length: 9 }, () => platform.call('POST', '/dispatch', sent)))
    expect(nine.map(({ status }) => status)).toEqual(Array(9).fill(202))
    expect(new Set(nine.map(({ json }) => json.goalId)).size).toBe(1)
  })

  it.each<[string, object, number, string]>([
    ['no message', {}, 422, 'validation_failed'],
    ['an empty text', { message: ' ' }, 422, 'validation_failed'],
    ['a number', { message: 7 }, 422, 'validation_failed'],
    ['NUL', { message: 'a\0' }, 422, 'validation_failed'],
    ['a long message', { message: 'x'.repeat(32 * 1024 + 1) }, 413, 'payload_too_large'],
  ])('with %s is refused', async (_, body, status, code) => {
    const answer = await dispatch(body)
    expect([answer.status, answer.json.code]).toEqual([status, code])
  })

  it('is seen by who started it, its user and admins alone', async () => {
    const own = (await dispatch({ message: 'x' })).json
    const user = await platform.keyOf('a-user-of-it', { access: 'viewer' })
    const admin = await platform.keyFor('admin')
    const body = { message: 'x', userId: 'a-user-of-it' }
    const named = (await platform.call('POST', '/dispatch', { key: admin, body })).json
    const stranger = await platform.keyOf('somebody-else')
    const statuses = async (goalId: unknown) => {
      const keys = [await platform.memberKey(), user, admin, stranger]
      const answers = keys.map((key) => platform.call('GET', `/dispatches/${goalId}`, { key }))
      return (await Promise.all(answers)).map(({ status }) => status)
    }
    expect(await statuses(own.goalId)).toEqual([200, 404, 200, 404])
    expect(await statuses(named.goalId)).toEqual([404, 200, 200, 404])
  })
})
