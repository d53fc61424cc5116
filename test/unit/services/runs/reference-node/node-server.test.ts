/** The protocol of ADK's api_server, as a reference node speaks it: the answers are those of google-adk 2.13. */

import { afterEach, expect, test } from 'vitest'
import { type NodeServer, openNodeServer } from '#services/runs/reference-node/node-server.ts'
import type { NodeAgent } from '#services/runs/reference-node/roster.ts'

const token = 'secret-token'
let server: NodeServer
const faults: string[] = []
let ended = Promise.withResolvers<boolean>()

const echo: NodeAgent = {
  description: 'Says what it heard',
  async *answer({ texts, customMetadata }) {
    yield { text: 'heard ', partial: true }
    yield { text: `heard ${texts.join('|')} ${JSON.stringify(customMetadata)}` }
  },
}
const broken: NodeAgent = {
  description: 'Fails',
  async *answer({ texts }) {
    if (texts[0] === 'midway') yield { text: 'begun' }
    throw new Error('no memory today')
  },
}
const endless: NodeAgent = {
  description: 'Waits until it is canceled',
  async *answer(_message, signal) {
    yield { text: 'begun' }
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    ended.resolve(signal.aborted)
  },
}

async function open(given: { token?: string | undefined } = { token }) {
  server = await openNodeServer({
    agents: new Map([
      ['atlas', echo],
      ['whale', broken],
      ['pulse', endless],
    ]),
    host: '127.0.0.1',
    port: 0,
    token: given.token,
    onFault: (app, fault) => faults.push(`${app} ${fault}`),
  })
}

afterEach(async () => {
  faults.length = 0
  ended = Promise.withResolvers()
  await server.close()
})

async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, text, json: () => JSON.parse(text) }
}

const ask = (appName: string, text: string, more: object = {}) => ({
  appName,
  userId: 'u',
  sessionId: 's',
  newMessage: { role: 'user', parts: [{ text }] },
  ...more,
})
const framesOf = (text: string) =>
  text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => JSON.parse(frame.replace(/^data: /, '')))

test('health needs no token; everything else does', async () => {
  await open()
  expect((await call('GET', '/health', undefined, { authorization: '' })).text).toBe('{"status":"ok"}')
  for (const path of ['/version', '/list-apps', '/apps/atlas/users/u/sessions/s']) {
    const refused = await call('GET', path, undefined, { authorization: 'Bearer other' })
    expect([refused.status, refused.text]).toEqual([401, '{"detail":"Unauthorized"}'])
  }
  expect((await call('GET', '/version')).json()).toMatchObject({ language: 'typescript' })
  expect((await call('GET', '/list-apps')).json()).toEqual(['atlas', 'whale', 'pulse'])
  expect((await call('GET', '/list-apps?detailed=true')).json().apps[0]).toEqual({
    name: 'atlas',
    rootAgentName: 'atlas',
    description: 'Says what it heard',
    language: 'typescript',
    isComputerUse: false,
  })
})

test('without a token only callers of this machine are answered, and no pages', async () => {
  await open({ token: undefined })
  expect((await call('GET', '/list-apps')).status).toBe(200)
  expect((await call('GET', '/list-apps', undefined, { origin: 'http://evil.test' })).status).toBe(403)
})

test('sessions are made, read and deleted', async () => {
  await open()
  const path = '/apps/atlas/users/u/sessions'
  const made = (await call('POST', path, { sessionId: 's', state: { theme: 'dark' } })).json()
  expect(made).toMatchObject({ id: 's', appName: 'atlas', userId: 'u', state: { theme: 'dark' }, events: [] })
  const again = await call('POST', path, { sessionId: 's' })
  expect([again.status, again.json()]).toEqual([409, { detail: 'Session already exists: s' }])
  expect((await call('POST', `${path}/t`)).json().id).toBe('t')
  expect((await call('POST', path)).json().id).toMatch(/^[0-9a-f-]{36}$/)
  expect((await call('GET', `${path}/s`)).json().id).toBe('s')
  expect((await call('DELETE', `${path}/s`)).text).toBe('null')
  expect((await call('DELETE', `${path}/s`)).text).toBe('null')
  const gone = await call('GET', `${path}/s`)
  expect([gone.status, gone.json()]).toEqual([404, { detail: 'Session not found' }])
  expect((await call('POST', '/apps/nobody/users/u/sessions')).status).toBe(404)
})

test('a run answers with its events, and the session keeps them', async () => {
  await open()
  await call('POST', '/apps/atlas/users/u/sessions/s')
  const whole = await call('POST', '/run', ask('atlas', 'hello', { customMetadata: { a: 1 } }))
  expect(whole.json()).toMatchObject([
    {
      author: 'atlas',
      content: { role: 'model', parts: [{ text: 'heard hello {"a":1}' }] },
      customMetadata: { a: 1 },
    },
  ])
  const snake = { app_name: 'atlas', user_id: 'u', session_id: 's', new_message: { parts: [{ text: 'hi' }] } }
  const streamed = framesOf((await call('POST', '/run_sse', { ...snake, streaming: true })).text)
  expect(streamed.map(({ partial, content }) => [partial, content.parts[0].text])).toEqual([
    [true, 'heard '],
    [undefined, 'heard hi {}'],
  ])
  const { events } = (await call('GET', '/apps/atlas/users/u/sessions/s')).json()
  expect(events.map(({ author }: { author: string }) => author)).toEqual(['user', 'atlas', 'user', 'atlas'])
})

test('a message may be bytes alone, which its session does not keep', async () => {
  await open()
  await call('POST', '/apps/atlas/users/u/sessions/s')
  const inlineData = { mimeType: 'image/png', data: 'A'.repeat(1_398_100) }
  const message = { ...ask('atlas', ''), newMessage: { role: 'user', parts: [{ inlineData }] } }
  const said = framesOf((await call('POST', '/run_sse', message)).text)
  expect(said.at(-1).content.parts[0].text).toBe('heard  {}')
  const { events } = (await call('GET', '/apps/atlas/users/u/sessions/s')).json()
  expect(events[0].content.parts).toEqual([{ inlineData: { ...inlineData, data: '' } }])
})

test('line separators in texts are escaped in the stream', async () => {
  await open()
  await call('POST', '/apps/atlas/users/u/sessions/s')
  const { text } = await call('POST', '/run_sse', ask('atlas', 'a\u2028b\u2029', { streaming: true }))
  expect(text).not.toMatch(/[\u2028\u2029]/)
  expect(framesOf(text).at(-1).content.parts[0].text).toBe('heard a\u2028b\u2029 {}')
})

test('what cannot be run is refused', async () => {
  await open()
  const status = async (body: unknown) => {
    const { status, text } = await call('POST', '/run_sse', body)
    return [status, JSON.parse(text).detail]
  }
  expect(await status(ask('atlas', 'hello'))).toEqual([404, 'Session not found: s'])
  expect(await status(ask('ATLAS', 'hello'))).toEqual([404, "Agent not found: 'ATLAS'"])
  expect((await status(ask('atlas', 'hello', { userId: undefined })))[0]).toBe(422)
  expect((await status({ ...ask('atlas', ''), newMessage: { parts: [] } }))[0]).toBe(422)
  expect((await status({ ...ask('atlas', ''), newMessage: { parts: [{ inlineData: null }] } }))[0]).toBe(422)
  expect((await status('{'))[0]).toBe(422)
  expect((await call('POST', '/run', ask('atlas', 'x'.repeat(3_200_000)))).status).toBe(413)
  expect((await call('GET', '/run')).status).toBe(404)
  expect((await call('GET', '/apps/%E0/users/u/sessions/s')).status).toBe(400)
})

test('an agent that fails is an error frame, also in the middle', async () => {
  await open()
  await call('POST', '/apps/whale/users/u/sessions/s')
  const frames = framesOf((await call('POST', '/run_sse', ask('whale', 'midway'))).text)
  expect(frames).toMatchObject([
    { content: { parts: [{ text: 'begun' }] } },
    { error: 'Error: no memory today', error_details: { error_message: 'Error: no memory today' } },
  ])
  expect((await call('POST', '/run', ask('whale', 'at once'))).status).toBe(500)
  expect(faults).toEqual(['whale Error: no memory today', 'whale Error: no memory today'])
})

test('a caller that closes its connection cancels the run; so does the end of the node', async () => {
  await open()
  await call('POST', '/apps/pulse/users/u/sessions/s')
  for (const cut of ['caller', 'node']) {
    ended = Promise.withResolvers()
    const gone = new AbortController()
    const response = await fetch(`${server.url}/run_sse`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(ask('pulse', 'go')),
      signal: gone.signal,
    })
    const reading = response.text().catch(() => {})
    if (cut === 'caller') gone.abort()
    else await server.close()
    expect(await ended.promise).toBe(true)
    await reading
  }
})
