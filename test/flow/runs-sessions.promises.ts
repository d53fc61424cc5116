/** The message of a run, and sessions: listed, read, followed and deleted over the run gateway, whatever engines are below. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { RunSession } from '#client/run-types.ts'
import { deleteAgent } from '#services/access/agents/agents.ts'
import { eventually } from '../support/eventually.ts'
import type { Answer } from '../support/gateway-call.ts'
import {
  lineOf,
  message,
  openRunsPlatform,
  type RunsPlatform,
  type TextEvent,
} from '../support/runs-platform.ts'
import { echoScript } from '../support/scripted-node.ts'
import type { SseReader } from '../support/sse-reader.ts'

type Said = NonNullable<Parameters<RunsPlatform['run']>[2]>

export function describeSessions(engines: string): void {
  let platform: RunsPlatform
  let count = 0
  /** A user of its own for each test. */
  let key: string
  let admin: string
  let viewer: string

  beforeAll(async () => {
    platform = await openRunsPlatform()
    admin = await platform.keyFor('admin')
    viewer = await platform.keyFor('viewer')
  })
  afterAll(() => platform?.close())
  afterEach(() => {
    platform.node.deletion = undefined
    for (const slug of ['whale', 'pulse', 'cipher']) platform.script(slug, echoScript)
  })

  const keyOfNext = () => platform.keyOf(`talker-${++count}`)
  const codeOf = ({ status, json }: Answer) => [status, json.code]
  const idOf = ({ headers }: Answer) => headers.get('x-run-id') as string
  const say = (slug: string, text: string, sessionId: string, { fields = {}, ...given }: Said = {}) =>
    platform.run(slug, text, { key, ...given, fields: { sessionId, ...fields } })
  /** Agents that repeat no name, which would call others. */
  const quietly = (...slugs: string[]) => {
    for (const slug of slugs) platform.script(slug, () => [{ text: 'I see.' }])
  }
  const get = (path: string, by = key) => platform.call('GET', path, { key: by })
  const remove = (path: string, by = key) => platform.call('DELETE', path, { key: by })
  const listed = async (query = '', by = key) =>
    (await get(`/sessions${query}`, by)).json as unknown as RunSession[]
  const talk = async (sessionId: string, query = '', by = key) =>
    ((await get(`/sessions/${sessionId}/events${query}`, by)).json as unknown as TextEvent[]).map(lineOf)
  const follow = (sessionId: string, given: { lastEventId?: string; query?: string } = {}) => {
    const { query = '', ...rest } = given
    return platform.stream(`/sessions/${sessionId}/events${query}`, { key, ...rest })
  }
  const heard = ({ frames }: SseReader) => frames.map(({ data }) => lineOf(data))
  const cursorOf = ({ headers }: Answer) => /cursor=([^&>]*)/.exec(headers.get('link') ?? '')?.[1]
  async function quiet(): Promise<void> {
    await eventually('reports have ended', async () => {
      const { rows } = await platform.platform.engines.relational.query(
        'select from platform.runs where ended_at is null limit 1',
      )
      return rows.length === 0
    })
  }

  describe(`the message of a run on ${engines}`, () => {
    test('is whole with its parts alone, and cut in lists', async () => {
      key = await keyOfNext()
      const text = `${'🦀'.repeat(300)} and @pulse`
      const parts = [{ text, note: 'kept' }, { text: 'more' }]
      const answer = await platform.call('POST', '/whale/run', { key, body: { newMessage: { parts } } })
      const { json: alone } = await get(`/runs/${idOf(answer)}`)
      expect(alone).toMatchObject({ message: `${text}\n\nmore`, parts })
      const runs = (await get('/runs')).json as unknown as Record<string, unknown>[]
      // PULSE was given the same message.
      expect(runs.map(({ trigger, message }) => [trigger, message])).toEqual([
        ['mention', '🦀'.repeat(200)],
        ['api', '🦀'.repeat(200)],
      ])
      for (const one of runs) expect(one).not.toHaveProperty('parts')
      const again = await platform.call('POST', `/runs/${idOf(answer)}/cancel`, { key })
      expect(again.json.message).toBe(`${text}\n\nmore`)
    })

    test('is in the answer that accepts it, and in the last frame of its stream', async () => {
      key = await keyOfNext()
      const accepted = await platform.call('POST', '/whale/run', {
        key,
        body: { newMessage: message('hello') },
        headers: { prefer: 'respond-async' },
      })
      expect(accepted.json).toMatchObject({ status: 'queued', message: 'hello' })
      const stream = await platform.stream(`/runs/${accepted.json.runId}/events`, { key })
      await stream.over
      expect(stream.end().run).toMatchObject({ status: 'completed', message: 'hello' })
    })

    test('of reports is null, of a synthesis what the orchestrator is given', async () => {
      key = await keyOfNext()
      const { json: made } = await platform.call('POST', '/dispatch', { key, body: { message: 'all hear' } })
      await eventually(
        'it ends',
        async () => (await get(`/dispatches/${made.goalId}`)).json.status !== 'running',
      )
      const runs = (await get(`/runs?goalId=${made.goalId}`)).json as unknown as Record<string, string>[]
      const by = Map.groupBy(runs, ({ trigger }) => trigger)
      expect(by.get('dispatch')!.map(({ message }) => message)).toEqual(Array(5).fill('all hear'))
      expect(by.get('synthesis')![0]!.message).toMatch(/^This message was sent to all agents of the fleet:/)
      await quiet()
      const all = (await get('/runs?agent=axon', admin)).json as unknown as Record<string, unknown>[]
      const reports = all.filter(({ trigger }) => trigger === 'report')
      expect(reports.length).toBeGreaterThan(0)
      for (const report of reports) expect(report.message).toBeNull()
    })
  })

  describe(`sessions on ${engines}`, () => {
    test('are listed with the newest message first, paged and filtered', async () => {
      key = await keyOfNext()
      quietly('pulse', 'cipher')
      for (const id of ['s1', 's2', 's3']) await say('whale', `hello ${id}`, id)
      await say('pulse', 'once more, @cipher', 's1')
      await quiet()
      const all = await listed()
      expect(all.map(({ sessionId }) => sessionId)).toEqual(['s1', 's3', 's2'])
      expect(all[0]).toEqual({
        sessionId: 's1',
        userId: `talker-${count}`,
        agents: ['CIPHER', 'PULSE', 'WHALE'],
        runs: 3,
        createdAt: expect.any(String),
        lastAt: expect.any(String),
        lastMessage: 'once more, @cipher',
        lastStatus: 'completed',
      })
      expect(all[0]!.lastAt > all[0]!.createdAt).toBe(true)
      expect((await listed('?agent=CIPHER')).map(({ sessionId }) => sessionId)).toEqual(['s1'])
      const ids: string[] = []
      for (let query = '?limit=1'; query !== ''; ) {
        const page = await get(`/sessions${query}`)
        ids.push(...(page.json as unknown as RunSession[]).map(({ sessionId }) => sessionId))
        const next = cursorOf(page)
        query = next ? `?limit=1&cursor=${next}` : ''
      }
      expect(ids).toEqual(['s1', 's3', 's2'])
    })

    test('have messages and the events of all agents in order, whole and in pages', async () => {
      key = await keyOfNext()
      quietly('pulse')
      platform.script('whale', () => [{ text: 'one' }, { text: 'two' }])
      await say('whale', 'hello, @pulse', 's')
      await say('cipher', 'and you?', 's')
      await platform.call('POST', '/dispatch', { key, body: { message: 'all', sessionId: 's' } })
      await quiet()
      const all = await talk('s')
      expect(all[0]).toBe('user: hello, @pulse')
      expect(all.slice(1, 4).sort()).toEqual(['PULSE: I see.', 'WHALE: one', 'WHALE: two'])
      expect(all.slice(4, 6)).toEqual(['user: and you?', 'CIPHER: cipher heard: and you?'])
      // One message for all of them, and the conclusion last.
      expect(all[6]).toBe('user: all')
      expect(all.filter((line) => line === 'user: all')).toHaveLength(1)
      expect(all.at(-1)).toMatch(/^AXON: /)
      for (const limit of [1, 3]) {
        const lines: string[] = []
        for (let query = `?limit=${limit}`; query !== ''; ) {
          const page = await get(`/sessions/s/events${query}`)
          const events = page.json as unknown as TextEvent[]
          expect(events.length).toBeLessThanOrEqual(limit)
          lines.push(...events.map(lineOf))
          const next = cursorOf(page)
          query = next ? `?limit=${limit}&cursor=${next}` : ''
        }
        expect(lines).toEqual(all)
      }
      expect(codeOf(await get('/sessions/s/events?cursor=c3h4'))).toEqual([422, 'validation_failed'])
    })

    test('a message is an event with the parts of its run', async () => {
      key = await keyOfNext()
      const parts = [{ text: 'hello', metadata: { big: 1 } }, { text: 'there' }]
      const run = await platform.call('POST', '/whale/run', {
        key,
        body: { newMessage: { parts }, sessionId: 's' },
      })
      const [first] = (await get('/sessions/s/events')).json as unknown as Record<string, unknown>[]
      expect(first).toMatchObject({
        author: 'user',
        invocationId: idOf(run),
        content: { role: 'user', parts },
        timestamp: expect.any(Number),
      })
    })

    test('are followed: old events, then new ones, and nothing twice after a break', async () => {
      key = await keyOfNext()
      await say('whale', 'first', 's')
      const gate = Promise.withResolvers<void>()
      platform.script('pulse', async function* () {
        yield { text: 'begun' }
        await gate.promise
        yield { text: 'done' }
      })
      const reader = await follow('s')
      await eventually('the old events have come', () => reader.frames.length === 2)
      const slow = say('pulse', 'take your time', 's')
      await eventually('it has begun', () => reader.frames.length === 4)
      // Another tree ends while that one is at work.
      await say('cipher', 'meanwhile', 's')
      await eventually('both have come', () => reader.frames.length === 6)
      const lastEventId = reader.frames.at(-1)!.id as string
      reader.cut()
      const rest = await follow('s', { lastEventId })
      const byQuery = await follow('s', { query: `?after=${lastEventId}` })
      gate.resolve()
      await slow
      for (const one of [rest, byQuery]) {
        await eventually('the rest has come', () => one.frames.length > 0)
        expect(heard(one)).toEqual(['PULSE: done'])
        one.cut()
      }
      expect(heard(reader)).toEqual([
        'user: first',
        'WHALE: whale heard: first',
        'user: take your time',
        'PULSE: begun',
        'user: meanwhile',
        'CIPHER: cipher heard: meanwhile',
      ])
      // From any event on, the same is left.
      for (const [n, { id }] of reader.frames.entries()) {
        const part = await follow('s', { lastEventId: id as string })
        await eventually('all of it has come', () => part.frames.length === 6 - n)
        part.cut()
      }
    })

    test('many that speak at once are all heard by a reader that follows', async () => {
      key = await keyOfNext()
      await say('whale', 'begin', 's')
      const reader = await follow('s')
      const slugs = ['whale', 'pulse', 'cipher', 'atlas', 'nexus']
      const sent = Array.from({ length: 25 }, (_, n) =>
        say(slugs[n % 5]!, `message ${n}`, 's', { headers: { prefer: 'respond-async' } }),
      )
      const answers = await Promise.all(sent)
      expect(answers.map(({ status }) => status)).toEqual(Array(25).fill(202))
      await eventually('all is heard', () => reader.frames.length >= 52)
      expect(heard(reader).sort()).toEqual((await talk('s')).sort())
      expect(new Set(reader.frames.map(({ data }) => data.id)).size).toBe(52)
      reader.cut()
    })

    test('two users under one id see each their own', async () => {
      key = await keyOfNext()
      const other = await keyOfNext()
      await say('whale', 'of the first', 'shared')
      await say('whale', 'of the second', 'shared', { key: other })
      await say('whale', 'of an end user', 'shared', { fields: { userId: 'end user' } })
      expect(await talk('shared')).toEqual(['user: of the first', 'WHALE: whale heard: of the first'])
      expect((await talk('shared', '', other))[0]).toBe('user: of the second')
      expect((await talk('shared', '?userId=end%20user'))[0]).toBe('user: of an end user')
      expect(await listed('?userId=end%20user', other)).toEqual([])
      const first = `talker-${count - 1}`
      for (const path of [
        '/sessions/shared/events?userId=end%20user',
        `/sessions/shared/events?userId=${first}`,
      ]) {
        expect(codeOf(await get(path, other))).toEqual([404, 'session_not_found'])
        expect((await get(path, admin)).status).toBe(200)
      }
      expect(codeOf(await remove(`/sessions/shared?userId=${first}`, other))).toEqual([
        404,
        'session_not_found',
      ])
      expect((await remove('/sessions/shared')).json).toEqual({
        sessionId: 'shared',
        userId: first,
        deleted: true,
      })
      expect((await talk('shared', '', other))[0]).toBe('user: of the second')
      expect((await talk('shared', '?userId=end%20user'))[0]).toBe('user: of an end user')
    })

    test('an agent that is made again under an old id sees none of the old one', async () => {
      key = await keyOfNext()
      await say('whale', 'the code is 4711', 's')
      const name = `talker-${count}`
      await deleteAgent(platform.platform.engines.relational, name)
      const renewed = await platform.keyOf(name)
      expect(await listed('', renewed)).toEqual([])
      expect(codeOf(await get('/sessions/s/events', renewed))).toEqual([404, 'session_not_found'])
      expect(codeOf(await remove('/sessions/s', renewed))).toEqual([404, 'session_not_found'])
    })
  })

  describe(`deleting a session on ${engines}`, () => {
    const counts = async () => {
      const { rows } = await platform.platform.engines.relational.query<{ of: string; n: number }>(
        ['runs', 'run_trees', 'run_events', 'run_reports', 'dispatches']
          .map((of) => `select '${of}' as of, count(*)::integer as n from platform.${of}`)
          .join(' union all '),
      )
      return Object.fromEntries(rows.map(({ of, n }) => [of, n]))
    }

    test('removes its rows, the reports about it, and the session at each node', async () => {
      key = await keyOfNext()
      const userId = `talker-${count}`
      await quiet()
      const before = await counts()
      const run = await say('whale', 'hello, @pulse', 's')
      await platform.call('POST', '/dispatch', { key, body: { message: 'all', sessionId: 's' } })
      await eventually('the dispatch ends', async () => (await listed())[0]!.lastStatus === 'completed')
      await quiet()
      const has = (slug: string, id = 's') => platform.node.hasSession(slug, userId, id)
      expect([has('whale'), has('pulse'), has('axon', 'reports-s')]).toEqual([true, true, true])
      const gone = await remove('/sessions/s')
      expect([gone.status, gone.json]).toEqual([200, { sessionId: 's', userId, deleted: true }])
      expect([has('whale'), has('pulse'), has('cipher'), has('axon', 'reports-s')]).toEqual(
        Array(4).fill(false),
      )
      expect(await counts()).toEqual(before)
      expect(codeOf(await get(`/runs/${idOf(run)}`))).toEqual([404, 'run_not_found'])
      expect(codeOf(await remove('/sessions/s'))).toEqual([404, 'session_not_found'])
      // A new one under its id, which the node makes again.
      expect((await say('whale', 'again', 's')).status).toBe(200)
      expect(await talk('s')).toEqual(['user: again', 'WHALE: whale heard: again'])
    })

    test('is refused while a run is at work or waits', async () => {
      key = await keyOfNext()
      const gate = Promise.withResolvers<void>()
      platform.script('whale', async function* ({ text }) {
        await gate.promise
        yield { text: `heard ${text}` }
      })
      const answers = [say('whale', 'one', 's'), say('whale', 'two', 's')]
      await eventually('both are there', async () => (await listed())[0]?.runs === 2)
      const refused = await remove('/sessions/s')
      expect(codeOf(refused)).toEqual([409, 'session_busy'])
      expect(refused.json.activeRunId).toMatch(/^run_/)
      gate.resolve()
      await Promise.all(answers)
      expect(await talk('s')).toHaveLength(4)
      expect((await remove('/sessions/s')).status).toBe(200)
    })

    test('that a node refuses leaves all of it, and ends well when it is repeated', async () => {
      key = await keyOfNext()
      await say('whale', 'hello', 's')
      await say('pulse', 'hello', 's')
      platform.node.deletion = 500
      expect(codeOf(await remove('/sessions/s'))).toEqual([503, 'node_unavailable'])
      expect(await talk('s')).toHaveLength(4)
      platform.node.deletion = undefined
      platform.node.forgetSessions()
      expect((await remove('/sessions/s')).status).toBe(200)
      expect(await listed()).toEqual([])
    })

    test('is for its user and admins where others started runs in it, and never for viewers', async () => {
      key = await keyOfNext()
      const other = await keyOfNext()
      const fields = { userId: 'a guest' }
      await say('whale', 'one', 's', { fields })
      await say('whale', 'two', 's', { key: other, fields })
      expect((await listed('?userId=a%20guest')).map(({ runs }) => runs)).toEqual([1])
      expect(codeOf(await remove('/sessions/s?userId=a%20guest'))).toEqual([403, 'user_mismatch'])
      expect(codeOf(await remove('/sessions/s?userId=a%20guest', viewer))).toEqual([403, 'forbidden'])
      expect((await remove('/sessions/s?userId=a%20guest', admin)).status).toBe(200)
    })

    test('leaves nothing to a reader that follows it, but later messages', async () => {
      key = await keyOfNext()
      await say('whale', 'old', 's')
      const reader = await follow('s')
      await eventually('it has come', () => reader.frames.length === 2)
      expect((await remove('/sessions/s')).status).toBe(200)
      await say('whale', 'new', 's')
      await eventually('the new message comes', () => reader.frames.length === 4)
      expect(heard(reader)).toEqual([
        'user: old',
        'WHALE: whale heard: old',
        'user: new',
        'WHALE: whale heard: new',
      ])
      reader.cut()
    })
  })
}
