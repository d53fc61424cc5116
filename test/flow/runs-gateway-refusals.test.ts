/** Refusals of the run gateway, and who sees which run. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())

const post = (body: unknown, headers: Record<string, string> = {}) =>
  platform.call('POST', '/whale/run', { body, headers })

describe('a body', () => {
  const newMessage = message('hello')
  it.each<[string, unknown, number, string, string?]>([
    ['no JSON', '{', 400, 'invalid_json'],
    ['nothing', '', 400, 'invalid_json'],
    ['an array', [], 422, 'validation_failed'],
    ['null', null, 422, 'validation_failed'],
    ['no message', {}, 422, 'validation_failed', '/newMessage'],
    ['a message that is a text', { newMessage: 'hello' }, 422, 'validation_failed', '/newMessage'],
    ['no parts', { newMessage: { role: 'user', parts: [] } }, 422, 'validation_failed', '/newMessage/parts'],
    [
      'parts that are none',
      { newMessage: { parts: ['x'] } },
      422,
      'validation_failed',
      '/newMessage/parts/0',
    ],
    [
      'bytes of no type',
      { newMessage: { parts: [{ inlineData: {} }] } },
      422,
      'validation_failed',
      '/newMessage/parts/0/inlineData/mimeType',
    ],
    ['spaces', { newMessage: message(' \n') }, 422, 'validation_failed', '/newMessage/parts'],
    [
      'a role of a model',
      { newMessage: { ...newMessage, role: 'model' } },
      422,
      'validation_failed',
      '/newMessage/role',
    ],
    ['another agent', { appName: 'PULSE', newMessage }, 400, 'app_name_mismatch'],
    ['a number as appName', { appName: 7, newMessage }, 422, 'validation_failed', '/appName'],
    ['an empty user', { userId: '', newMessage }, 422, 'validation_failed', '/userId'],
    ['a long session', { sessionId: 'x'.repeat(513), newMessage }, 422, 'validation_failed', '/sessionId'],
    ['NUL in an id', { sessionId: 'a\0b', newMessage }, 422, 'validation_failed', '/sessionId'],
    ['NUL in a message', { newMessage: message('a\0b') }, 422, 'validation_failed', '/newMessage/parts'],
    ['NUL in a key', { newMessage, stateDelta: { 'a\0': 1 } }, 422, 'validation_failed', '/stateDelta'],
    ['half of a pair', '{"newMessage":{"parts":[{"text":"\\ud800"}]}}', 422, 'validation_failed'],
    ['an unknown value', { newMessage, onBusy: 'wait' }, 422, 'validation_failed', '/onBusy'],
    ['streaming as text', { newMessage, streaming: 'true' }, 422, 'validation_failed', '/streaming'],
    ['state that is a list', { newMessage, stateDelta: [] }, 422, 'validation_failed', '/stateDelta'],
    ['a long message', { newMessage: message('x'.repeat(32 * 1024 + 1)) }, 413, 'payload_too_large'],
    ['much metadata', { newMessage, customMetadata: { x: 'y'.repeat(70_000) } }, 413, 'payload_too_large'],
    [
      'a very long body',
      `{"newMessage":{"parts":[{"text":"x"}]},"x":"${'y'.repeat(2 * 1024 * 1024)}"}`,
      413,
      'payload_too_large',
    ],
  ])('with %s is refused', async (_, body, status, code, path) => {
    const answer = await post(body)
    expect([answer.status, answer.json.code]).toEqual([status, code])
    const paths = ((answer.json.errors ?? []) as { path: string }[]).map((error) => error.path)
    if (path !== undefined) expect(paths).toContain(path)
  })

  it('may have what looks like NUL and is text, exactly 32 KiB, and odd keys', async () => {
    const text = `\\u0000 ${'语'.repeat(10_000)}`
    const padded = text + 'x'.repeat(32 * 1024 - Buffer.byteLength(text))
    const body = `{"newMessage":${JSON.stringify(message(padded))},"__proto__":{"a":1},"stateDelta":{"__proto__":1,"":2}}`
    const answer = await post(body)
    expect(answer.status).toBe(200)
    expect(answer.text).toContain('\\\\u0000')
  })

  it('of another type is refused, and so is another method', async () => {
    const text = await post('x=1', { 'content-type': 'application/x-www-form-urlencoded' })
    expect([text.status, text.json.code]).toEqual([415, 'unsupported_media_type'])
    const get = await platform.call('GET', '/whale/run')
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST'])
  })
})

describe('an address', () => {
  it.each([
    ['POST', '/nobody/run', 404, 'agent_not_found'],
    ['POST', '/__proto__/run', 404, 'agent_not_found'],
    ['GET', '/runs/nothing', 404, 'run_not_found'],
    ['GET', `/runs/run_${'0'.repeat(32)}`, 404, 'run_not_found'],
    ['GET', `/runs/run_${'0'.repeat(32)}/events`, 404, 'run_not_found'],
    ['POST', `/runs/run_${'0'.repeat(32)}/cancel`, 404, 'run_not_found'],
    ['GET', '/dispatches/1', 404, 'dispatch_not_found'],
    ['GET', '/dispatches/x', 404, 'dispatch_not_found'],
    ['GET', '/dispatches/99999999999999999999', 404, 'dispatch_not_found'],
    ['POST', '/dispatches/1/cancel', 404, 'dispatch_not_found'],
    ['GET', '/sessions/nothing/events', 404, 'session_not_found'],
    ['DELETE', '/sessions/nothing', 404, 'session_not_found'],
    ['GET', '/sessions?limit=0', 422, 'validation_failed'],
    ['GET', '/sessions?cursor=x', 422, 'validation_failed'],
    ['GET', '/sessions?who=me', 422, 'validation_failed'],
    ['GET', '/sessions?userId=%00', 422, 'validation_failed'],
    ['GET', '/sessions/%00/events', 422, 'validation_failed'],
    ['GET', `/sessions/${'x'.repeat(600)}/events`, 422, 'validation_failed'],
    ['GET', '/sessions/nothing/events?cursor=!', 422, 'validation_failed'],
    ['GET', '/runs?limit=0', 422, 'validation_failed'],
    ['GET', '/runs?status=done', 422, 'validation_failed'],
    ['GET', '/runs?cursor=x', 422, 'validation_failed'],
    ['GET', '/runs?goalId=1e3', 422, 'validation_failed'],
    ['GET', '/runs?sessionId=%00', 422, 'validation_failed'],
    ['GET', '/runs?nothing=1', 422, 'validation_failed'],
    ['POST', '/whale/run?join=maybe', 422, 'validation_failed'],
  ])('%s %s: %d %s', async (method, path, status, code) => {
    const body = method === 'POST' && path.includes('/run') ? { newMessage: message('x') } : undefined
    const answer = await platform.call(
      method,
      path,
      body && path.includes('/run?') ? { body } : body ? { body } : {},
    )
    expect([answer.status, answer.json.code]).toEqual([status, code])
  })
})

describe('rights', () => {
  it('a credential is needed, and a viewer starts and cancels nothing', async () => {
    const none = await platform.call('POST', '/whale/run', {
      body: { newMessage: message('x') },
      key: 'vk_live_x',
    })
    expect([none.status, none.json.code]).toEqual([401, 'unauthorized'])
    const key = await platform.keyFor('viewer')
    const run = await platform.run('whale', 'x', { key })
    expect([run.status, run.json.code]).toEqual([403, 'forbidden'])
    const dispatch = await platform.call('POST', '/dispatch', { key, body: { message: 'x' } })
    expect(dispatch.status).toBe(403)
    expect((await platform.call('GET', '/runs', { key })).status).toBe(200)
  })

  it('a run is seen by who started it, its user and admins, and nobody else', async () => {
    const owner = await platform.keyOf('the-owner')
    const user = await platform.keyOf('the-user', { access: 'viewer' })
    const stranger = await platform.keyOf('a-stranger')
    const admin = await platform.keyFor('admin')
    const start = async (key: string, userId: string, seenBy: number[]) => {
      const answer = await platform.run('whale', 'PULSE too', { key, fields: { userId } })
      const id = answer.headers.get('x-run-id') as string
      const joined = (await platform.call('GET', `/runs/${id}`, { key })).json.joined as { runId: string }[]
      expect(joined).toHaveLength(1)
      for (const one of [id, joined[0]!.runId]) {
        const statuses = []
        for (const asking of [owner, user, admin, stranger]) {
          statuses.push((await platform.call('GET', `/runs/${one}`, { key: asking })).status)
        }
        expect(statuses).toEqual(seenBy)
      }
      return id
    }
    const ofOwner = await start(owner, 'a user of the owner', [200, 404, 200, 404])
    const runId = await start(admin, 'the-user', [404, 200, 200, 404])
    const events = await platform.stream(`/runs/${runId}/events`, { key: stranger })
    expect(events.status).toBe(404)
    expect((await platform.call('POST', `/runs/${runId}/cancel`, { key: stranger })).status).toBe(404)
    expect((await platform.call('POST', `/runs/${runId}/cancel`, { key: user })).status).toBe(403)
    const listed = async (key: string, query = '') =>
      ((await platform.call('GET', `/runs${query}`, { key })).json as unknown as { runId: string }[]).map(
        (run) => run.runId,
      )
    expect(await listed(stranger)).toEqual([])
    expect(await listed(owner)).toContain(ofOwner)
    expect(await listed(owner)).not.toContain(runId)
    expect(await listed(user)).toContain(runId)
    expect(await listed(admin, '?userId=the-user')).toContain(runId)
    expect(await listed(admin, '?userId=nobody')).toEqual([])
  })

  it('an agent with an ID token starts runs for users of its own', async () => {
    const body = { newMessage: message('x'), userId: 'somebody' }
    const token = await platform.idTokenOf('an-agent-with-a-token')
    const agent = await platform.call('POST', '/whale/run', { body, key: token })
    expect(agent.status).toBe(200)
  })

  it('reports to the orchestrator are shown to admins alone', async () => {
    const owner = await platform.keyOf('one-who-reports')
    await platform.run('whale', 'x', { key: owner })
    const admin = await platform.keyFor('admin')
    let report: { runId: string } | undefined
    await eventually('the report is there', async () => {
      const runs = (await platform.call('GET', '/runs?agent=AXON&userId=one-who-reports', { key: admin }))
        .json
      report = (runs as unknown as { runId: string; trigger: string }[]).find(
        ({ trigger }) => trigger === 'report',
      )
      return report !== undefined
    })
    const path = `/runs/${report!.runId}`
    expect((await platform.call('GET', path, { key: admin })).status).toBe(200)
    expect((await platform.call('GET', path, { key: owner })).status).toBe(404)
  })
})

describe('a list', () => {
  it('goes on with the next page, the newest first', async () => {
    const key = await platform.keyOf('one-with-many')
    const made: string[] = []
    for (let n = 0; n < 5; n++) {
      made.unshift((await platform.run('whale', `${n}`, { key })).headers.get('x-run-id') as string)
    }
    const found: string[] = []
    for (let path: string | undefined = '/runs?limit=2'; path !== undefined; ) {
      const page = await platform.call('GET', path, { key })
      found.push(...(page.json as unknown as { runId: string }[]).map(({ runId }) => runId))
      path = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1]
    }
    expect(found).toEqual(made)
  })
})

describe('limits', () => {
  it('a caller has ten places for streams and waits; a pending run holds no slot', async () => {
    platform.script('cipher', () => [{ hang: true }])
    // Concurrency 5.
    const key = await platform.keyOf('one-that-waits', { tier: 'agent' })
    const cut = new AbortController()
    const wait = () =>
      fetch(`${platform.runUrl}/cipher/run`, {
        method: 'POST',
        signal: cut.signal,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ newMessage: message('x') }),
      }).catch(() => undefined)
    const running = async () => {
      const { json } = await platform.call('GET', '/runs?agent=cipher&status=running', { key })
      return json as unknown as { runId: string }[]
    }
    const open: Promise<unknown>[] = []
    for (let n = 1; n <= 10; n++) {
      open.push(wait())
      await eventually('it runs', async () => (await running()).length === n)
    }
    const refused = await platform.run('cipher', 'x', { key })
    expect([refused.status, refused.json.code]).toEqual([429, 'too_many_streams'])
    expect(refused.headers.get('ratelimit-policy')).toContain('concurrent')
    const accepted = await platform.run('cipher', 'x', { key, headers: { prefer: 'respond-async' } })
    expect(accepted.status).toBe(202)
    const runs = await running()
    cut.abort()
    await Promise.all(open)
    await eventually('the places are free again', async () => {
      const answer = await platform.run('whale', 'x', { key })
      return answer.status === 200
    })
    for (const { runId } of [...runs, accepted.json as { runId: string }]) {
      await platform.call('POST', `/runs/${runId}/cancel`, { key })
    }
  })
})
