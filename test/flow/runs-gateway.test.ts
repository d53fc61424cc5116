/** Messages to agents over HTTP: answers, streams, sessions, cancel, Idempotency-Key. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { lineOf, message, openRunsPlatform, type RunsPlatform, talkOf } from '#test/support/runs-platform.ts'
import { echoScript } from '#test/support/scripted-node.ts'

let platform: RunsPlatform

beforeAll(async () => {
  platform = await openRunsPlatform()
})
afterAll(() => platform?.close())

/** The messages to an agent; reports go to the orchestrator at the same node. */
const runsOf = (slug: string) => platform.node.runs.filter(({ app }) => app === slug)

async function runOf(answer: { headers: Headers }, key?: string) {
  const runId = answer.headers.get('x-run-id') as string
  return (await platform.call('GET', `/runs/${runId}`, key ? { key } : {})).json
}

async function ended(runId: string) {
  let run: Record<string, unknown> = {}
  await eventually('the run ends', async () => {
    run = (await platform.call('GET', `/runs/${runId}`)).json
    return run.endedAt !== null
  })
  return run
}

describe('the answer', () => {
  it('has the events as ADK answers them, and says where the run is', async () => {
    const answer = await platform.run('whale', 'hello', { fields: { appName: 'Whale' } })
    expect(answer.status).toBe(200)
    expect(talkOf(answer)).toEqual(['WHALE: whale heard: hello'])
    // Only tracing sends one.
    expect(runsOf('whale').at(-1)?.headers.traceparent).toBeUndefined()
    const runId = answer.headers.get('x-run-id') as string
    expect(runId).toMatch(/^run_[0-9a-f]{32}$/)
    expect(answer.headers.get('location')).toBe(`/runs/${runId}`)
    expect(answer.headers.get('x-user-id')).toBe('key-member')
    expect(answer.headers.get('x-session-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.json).toMatchObject([
      { author: 'WHALE', invocationId: runId, customMetadata: { nodeInvocationId: expect.any(String) } },
    ])
    expect(await runOf(answer)).toMatchObject({
      runId,
      appName: 'WHALE',
      status: 'completed',
      trigger: 'api',
      rootRunId: runId,
      parentRunId: null,
      attempt: 1,
      error: null,
      lastEventId: 1,
    })
  })

  it('takes snake_case, ignores unknown fields, and reads null as absent', async () => {
    const answer = await platform.call('POST', '/whale/run', {
      body: {
        app_name: 'WHALE',
        user_id: 'u-snake',
        session_id: 's-snake',
        new_message: message('snake'),
        state_delta: null,
        custom_metadata: { a: 1 },
        onBusy: null,
        function_call_event_id: 'x',
      },
    })
    expect(talkOf(answer)).toEqual(['WHALE: whale heard: snake'])
    expect(answer.headers.get('x-user-id')).toBe('u-snake')
    expect(platform.node.hasSession('whale', 'u-snake', 's-snake')).toBe(true)
    expect(answer.json).toMatchObject([{ customMetadata: { a: 1 } }])
  })

  it('gives ids that no header can carry percent-encoded', async () => {
    const answer = await platform.run('whale', 'x', { fields: { sessionId: 'ü 語', userId: 'a+b' } })
    expect(decodeURIComponent(answer.headers.get('x-session-id') as string)).toBe('ü 語')
    expect(answer.headers.get('x-user-id')).toBe('a+b')
    const ids = await Promise.all(
      ['a b', 'a%20b'].map(async (sessionId) => {
        const { headers } = await platform.run('whale', 'x', { fields: { sessionId } })
        return headers.get('x-session-id')
      }),
    )
    expect(ids).toEqual(['a%20b', 'a%2520b'])
  })

  it('is an empty list when the agent says nothing', async () => {
    platform.script('cipher', () => [{ raw: ': nothing\n\n' }])
    const answer = await platform.run('cipher', 'hello')
    expect([answer.status, answer.text]).toEqual([200, '[]'])
    platform.script('cipher', echoScript)
  })

  it('has every event of a long run, in order', async () => {
    platform.script('nexus', () =>
      Array.from({ length: 300 }, (_, n) => ({ text: `${n} ${'x'.repeat(5_000)}` })),
    )
    const answer = await platform.run('nexus', 'all of it')
    const talk = talkOf(answer).map((line) => Number(line.split(' ')[1]))
    expect(talk).toEqual(Array.from({ length: 300 }, (_, n) => n))
    platform.script('nexus', echoScript)
  })
})

describe('a run that fails', () => {
  it('is answered with its problem, which names the run', async () => {
    platform.script('pulse', () => [{ text: 'one' }, { raise: 'no file /home/agents/pulse.py' }])
    const answer = await platform.run('pulse', 'hello')
    expect(answer.status).toBe(502)
    expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/)
    expect(answer.json).toMatchObject({
      code: 'agent_error',
      runId: answer.headers.get('x-run-id'),
      sessionId: answer.headers.get('x-session-id'),
      retryable: expect.any(Boolean),
    })
    expect(answer.text).not.toContain('/home')
    expect(await runOf(answer)).toMatchObject({ status: 'failed', error: { code: 'agent_error' } })
    platform.script('pulse', echoScript)
  })

  it('ends its stream with an event that says why', async () => {
    platform.script('pulse', () => [{ text: 'one' }, { waitMs: 20 }, { cut: true }])
    const stream = await platform.stream('/pulse/run', { body: { newMessage: message('x') } })
    expect(await stream.over).toBe(true)
    expect(stream.frames.at(-1)!.data).toMatchObject({ errorCode: 'node_lost', turnComplete: true })
    expect(stream.end().run).toMatchObject({ status: 'failed', error: { code: 'node_lost' } })
    platform.script('pulse', echoScript)
  })
})

describe('a stream', () => {
  it('has pieces without ids, durable events with 1, 2, 3, and the outcome last', async () => {
    platform.script('atlas', () => [
      { text: 'Hel', partial: true },
      { text: 'lo', partial: true },
      { text: 'Hello' },
      { text: 'Bye' },
    ])
    const body = { newMessage: message('x'), streaming: true }
    const stream = await platform.stream('/atlas/run', { body, headers: { accept: '*/*' } })
    expect(await stream.over).toBe(true)
    expect(stream.headers.get('x-accel-buffering')).toBe('no')
    expect(stream.headers.get('cache-control')).toBe('no-store')
    expect(stream.retry).toBe('2000')
    expect(stream.frames.map(({ id, data }) => `${id} ${data.partial === true} ${lineOf(data)}`)).toEqual([
      'undefined true ATLAS: Hel',
      'undefined true ATLAS: lo',
      '1 false ATLAS: Hello',
      '2 false ATLAS: Bye',
      '3 false gateway: ',
    ])
    expect(stream.end().run).toMatchObject({
      runId: stream.headers.get('x-run-id'),
      status: 'completed',
      lastEventId: 2,
    })
    platform.script('atlas', echoScript)
  })

  it('shows events as they happen, and its run goes on when the reader leaves', async () => {
    let go = () => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    platform.script('atlas', async function* () {
      yield { text: 'first' }
      await gate
      yield { text: 'second' }
    })
    const stream = await platform.stream('/atlas/run', { body: { newMessage: message('x') } })
    await eventually('the first event is there', () => stream.frames.length === 1)
    stream.cut()
    go()
    expect(await ended(stream.headers.get('x-run-id') as string)).toMatchObject({
      status: 'completed',
      lastEventId: 2,
    })
    platform.script('atlas', echoScript)
  })

  it('is given again from the rows, and goes on behind any event', async () => {
    platform.script('atlas', () => Array.from({ length: 40 }, (_, n) => ({ text: `e${n + 1}` })))
    const answer = await platform.run('atlas', 'x')
    const path = `/runs/${answer.headers.get('x-run-id')}/events`
    const all = await platform.stream(path)
    await all.over
    expect(all.ids()).toEqual(Array.from({ length: 40 }, (_, n) => n + 1))
    const behind = await platform.stream(path, { lastEventId: '38' })
    await behind.over
    expect(behind.ids()).toEqual([39, 40])
    const byQuery = await platform.stream(`${path}?after=39`)
    await byQuery.over
    expect(byQuery.ids()).toEqual([40])
    const end = await platform.stream(path, { lastEventId: '40' })
    await end.over
    expect([end.ids(), end.frames.at(-1)!.id, end.end().run.status]).toEqual([[], '41', 'completed'])
    // An EventSource would come again and again for the last frame.
    for (const last of ['41', '900']) {
      const nothing = await platform.stream(path, { lastEventId: last })
      expect([nothing.status, nothing.text]).toEqual([204, ''])
    }
    const alone = await platform.stream(`${path}?join=false`, { lastEventId: '40' })
    await alone.over
    const last = alone.frames.at(-1)!.id!
    expect((await platform.stream(`${path}?join=false`, { lastEventId: last })).status).toBe(204)
    const refused = await platform.stream(path, { lastEventId: 'x' })
    expect(refused.status).toBe(422)
    platform.script('atlas', echoScript)
  })
})

describe('an answer that does not wait', () => {
  it('says that the run was accepted', async () => {
    platform.script('atlas', () => [{ waitMs: 200 }, { text: 'done' }])
    const answer = await platform.run('atlas', 'x', { headers: { prefer: 'respond-async' } })
    expect(answer.status).toBe(202)
    expect(answer.headers.get('preference-applied')).toBe('respond-async')
    expect(answer.json).toMatchObject({ runId: answer.headers.get('x-run-id'), status: 'queued' })
    const short = await platform.run('atlas', 'x', { headers: { prefer: 'wait=0' } })
    expect(short.status).toBe(202)
    expect((await ended(short.headers.get('x-run-id') as string)).status).toBe('completed')
  })

  it('or that it is still at work, after the time that was given', async () => {
    platform.script('atlas', () => [{ text: 'one' }, { waitMs: 1_500 }, { text: 'two' }])
    const answer = await platform.run('atlas', 'x', { headers: { prefer: 'wait=1' } })
    expect(answer.status).toBe(202)
    expect(answer.headers.get('preference-applied')).toBe('wait=1')
    expect(answer.json).toMatchObject({ status: 'running', lastEventId: 1 })
    expect((await ended(answer.headers.get('x-run-id') as string)).status).toBe('completed')
    platform.script('atlas', echoScript)
  })
})

describe('runs of one session', () => {
  it('go one after the other, or are refused when the caller does not want to wait', async () => {
    platform.script('cipher', ({ text }) => [
      { text: `start ${text}` },
      { waitMs: 150 },
      { text: `end ${text}` },
    ])
    const fields = { sessionId: randomUUID() }
    const async = { prefer: 'respond-async' }
    const first = await platform.run('cipher', 'a', { fields, headers: async })
    const rejected = await platform.run('cipher', 'b', { fields: { ...fields, onBusy: 'reject' } })
    expect(rejected.status).toBe(409)
    expect(rejected.json).toMatchObject({ code: 'session_busy', activeRunId: first.json.runId })
    const second = await platform.run('cipher', 'c', { fields })
    expect(talkOf(second)).toEqual(['CIPHER: start c', 'CIPHER: end c'])
    const [one, two] = platform.node.runs.filter(({ sessionId }) => sessionId === fields.sessionId)
    expect(two!.startedAt).toBeGreaterThanOrEqual(one!.endedAt as number)
    platform.script('cipher', echoScript)
  })

  it('wait up to ten, then more are refused', async () => {
    platform.script('cipher', () => [{ hang: true }])
    const fields = { sessionId: randomUUID() }
    const headers = { prefer: 'respond-async' }
    const running = await platform.run('cipher', 'first', { fields, headers })
    await eventually('it runs', () =>
      platform.node.runs.some(({ sessionId }) => sessionId === fields.sessionId),
    )
    const waiting = await Promise.all(
      Array.from({ length: 10 }, (_, n) => platform.run('cipher', `${n}`, { fields, headers })),
    )
    expect(waiting.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 202))
    const refused = await platform.run('cipher', 'too many', { fields, headers })
    expect([refused.status, refused.json.code]).toEqual([429, 'session_queue_full'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    platform.script('cipher', echoScript)
    for (const { json } of [...waiting, running]) await platform.call('POST', `/runs/${json.runId}/cancel`)
    expect(await ended(running.json.runId as string)).toMatchObject({ status: 'canceled' })
  })
})

describe('cancel', () => {
  it('ends a run at its node; its stream says so, its caller is answered, and again changes nothing', async () => {
    platform.script('nexus', () => [{ text: 'one' }, { hang: true }])
    const sync = platform.run('nexus', 'hang')
    await eventually('it runs', () =>
      platform.node.runs.some(({ app, endedAt }) => app === 'nexus' && endedAt === null),
    )
    const [found] = (await platform.call('GET', '/runs?agent=nexus&status=running')).json as unknown as {
      runId: string
    }[]
    const stream = await platform.stream(`/runs/${found!.runId}/events`)
    await eventually('the event is there', () => stream.frames.length === 1)
    const canceled = await platform.call('POST', `/runs/${found!.runId}/cancel`)
    expect(canceled.status).toBe(202)
    expect(canceled.json.cancelRequestedAt).not.toBeNull()
    const answer = await sync
    expect([answer.status, answer.json.code]).toEqual([409, 'run_canceled'])
    expect(answer.json.runId).toBe(found!.runId)
    await stream.over
    expect(stream.end().run.status).toBe('canceled')
    expect(stream.frames.at(-1)!.data.errorCode).toBe('run_canceled')
    await eventually('the node sees it', () => runsOf('nexus').at(-1)!.aborted)
    const again = await platform.call('POST', `/runs/${found!.runId}/cancel`)
    expect([again.status, again.json.status]).toEqual([200, 'canceled'])
    platform.script('nexus', echoScript)
  })

  it('of a run that has completed leaves it so', async () => {
    const answer = await platform.run('whale', 'x')
    const canceled = await platform.call('POST', `${answer.headers.get('location')}/cancel`)
    expect([canceled.status, canceled.json.status]).toEqual([200, 'completed'])
  })
})

describe('an Idempotency-Key', () => {
  it('attaches a repeated request to the same run, while it runs and when it is over', async () => {
    platform.script('pulse', () => [{ waitMs: 300 }, { text: 'once' }])
    const headers = { 'idempotency-key': randomUUID() }
    const before = runsOf('pulse').length
    const [first, second] = await Promise.all([
      platform.run('pulse', 'x', { headers }),
      eventually('it runs', () => runsOf('pulse').length > before).then(() =>
        platform.run('pulse', 'x', { headers }),
      ),
    ])
    const third = await platform.run('pulse', 'x', { headers })
    expect([first.status, second.status, third.status]).toEqual([200, 200, 200])
    expect(second.text).toBe(first.text)
    expect(third.text).toBe(first.text)
    expect(runsOf('pulse').length).toBe(before + 1)
    expect(first.headers.get('idempotency-replayed')).toBeNull()
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(third.headers.get('x-session-id')).toBe(first.headers.get('x-session-id'))
    const stream = await platform.stream('/pulse/run', { body: { newMessage: message('x') }, headers })
    await stream.over
    expect(stream.ids()).toEqual([1])
  })

  it('sent nine times at once starts one run, to which all attach', async () => {
    platform.script('pulse', ({ number }) => [{ waitMs: 300 }, { text: `run ${number}` }])
    const key = await platform.keyOf('nine-at-once', { tier: 'research-agent', access: 'member' })
    const before = runsOf('pulse').length
    const headers = { 'idempotency-key': randomUUID() }
    const nine = await Promise.all(
      Array.from({ length: 9 }, () => platform.run('pulse', 'x', { headers, key })),
    )
    expect(nine.map(({ status }) => status)).toEqual(Array(9).fill(200))
    expect(new Set(nine.map(({ text }) => text)).size).toBe(1)
    for (const name of ['x-run-id', 'x-session-id']) {
      expect(new Set(nine.map((answer) => answer.headers.get(name))).size).toBe(1)
    }
    expect(nine.filter((answer) => answer.headers.get('idempotency-replayed') === null)).toHaveLength(1)
    expect(runsOf('pulse').length).toBe(before + 1)
    platform.script('pulse', echoScript)
  })

  it('with another body is refused; with another agent it is another key', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const first = await platform.run('whale', 'x', { headers })
    const other = await platform.run('whale', 'y', { headers })
    expect([other.status, other.json.code]).toEqual([409, 'idempotency_conflict'])
    const elsewhere = await platform.run('cipher', 'x', { headers })
    expect(elsewhere.headers.get('x-run-id')).not.toBe(first.headers.get('x-run-id'))
  })

  it('of a refused request may be used again', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    platform.script('cipher', () => [{ waitMs: 300 }, { text: 'done' }])
    const fields = { sessionId: randomUUID(), onBusy: 'reject' }
    await platform.run('cipher', 'first', { fields, headers: { prefer: 'respond-async' } })
    const busy = await platform.run('cipher', 'second', { fields, headers })
    expect(busy.status).toBe(409)
    await eventually('the first is over', async () => {
      const again = await platform.run('cipher', 'second', { fields, headers })
      return again.status === 200
    })
    platform.script('cipher', echoScript)
  })
})
