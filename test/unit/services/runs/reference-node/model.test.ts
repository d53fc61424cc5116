/** The model's endpoint: requests, and which answers count. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { modelOf } from '#services/runs/reference-node/model.ts'

const ends: (() => void)[] = []

afterEach(() => {
  for (const end of ends.splice(0)) end()
})

async function endpointOf(status: number, body: string | null) {
  const asked: { url: string | undefined; key: string | undefined; body: unknown }[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    asked.push({ url: request.url, key: request.headers.authorization, body: JSON.parse(text) })
    if (body !== null) response.writeHead(status).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/` }
}

const messages = [{ role: 'user', content: 'hello' }] as const
const never = new AbortController().signal
const settings = (url: string) => ({ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'secret', OPENAI_MODEL: 'small' })

test('without an endpoint there is no model', () => {
  expect(modelOf({ OPENAI_MODEL: 'small' })).toBeUndefined()
})

test('a message is sent as a chat completion', async () => {
  const { asked, url } = await endpointOf(200, '{"choices":[{"message":{"content":" By night. "}}]}')
  expect(await modelOf(settings(url))!(messages, never)).toBe('By night.')
  expect(asked).toEqual([
    {
      url: '/v1/chat/completions',
      key: 'Bearer secret',
      body: { model: 'small', messages: [{ role: 'user', content: 'hello' }], max_completion_tokens: 8_192 },
    },
  ])
})

test.each([
  ['by its old name alone', ['max_completion_tokens'], ['max_tokens']],
  ['by no name, or takes fewer', ['max_completion_tokens', 'max_tokens'], []],
])('an endpoint that knows the limit %s gets that, and from then on', async (_how, refused, taken) => {
  const names: string[][] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { model: _, messages: __, ...rest } = JSON.parse(text)
    const limits = Object.keys(rest)
    names.push(limits)
    const fault = refused.find((name) => limits.includes(name))
    if (fault) response.writeHead(400).end(`{"error":{"message":"Refused parameter: ${fault}"}}`)
    else response.end('{"choices":[{"message":{"content":"hello"}}]}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const compose = modelOf(settings(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`))!
  expect(await compose(messages, never)).toBe('hello')
  expect(await compose(messages, never)).toBe('hello')
  expect(names).toEqual([...refused.map((name) => [name]), taken, taken])
})

test('thoughts in front of an answer are left out', async () => {
  const content = '<think>By day?\nNo.</think>\n\nBy night.'
  const { url } = await endpointOf(200, JSON.stringify({ choices: [{ message: { content } }] }))
  expect(await modelOf(settings(url))!(messages, never)).toBe('By night.')
})

const cut = '{"choices":[{"finish_reason":"length","message":{"content":"<think>By day?"}}]}'

test.each([
  ['a refusal, whose words stay away', 401, '{"error":"key secret is wrong"}', 'answered 401'],
  ['no JSON', 200, 'hello', 'no JSON'],
  ['no text', 200, '{"choices":[]}', 'said nothing'],
  ['a thought that was cut off', 200, cut, 'used up'],
  ['an empty text', 200, '{"choices":[{"message":{"content":" "}}]}', 'said nothing'],
  ['far too much', 200, 'x'.repeat(1_100_000), 'too much'],
])('%s is a fault', async (_what, status, body, fault) => {
  const { url } = await endpointOf(status, body)
  const asking = modelOf(settings(url))!(messages, never)
  await expect(asking).rejects.toThrow(fault)
  await expect(asking).rejects.not.toThrow('secret')
})

test('an endpoint that is away, or slow, is a fault in plain words', async () => {
  const away = modelOf(settings('http://127.0.0.1:1/v1'))!
  await expect(away(messages, never)).rejects.toThrow(/^its endpoint does not answer$/)
  const { url } = await endpointOf(200, null)
  const slow = modelOf(settings(url))!(messages, never, 50)
  await expect(slow).rejects.toThrow(/^it took longer than 0.05 seconds$/)
})

test('a caller that leaves ends the asking', async () => {
  const { url } = await endpointOf(200, null)
  const gone = new AbortController()
  const asking = modelOf(settings(url))!(messages, gone.signal)
  setTimeout(() => gone.abort(), 50)
  await expect(asking).rejects.toThrow(/abort/i)
})
