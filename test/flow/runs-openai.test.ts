/** Chat completions as a client of OpenAI's API sends them: models, answers whole and in chunks, history, refusals, faults. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { chatsOf } from '../support/openai-chat.ts'
import { agents, openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

let runs: RunsPlatform
let chats: ReturnType<typeof chatsOf>
beforeAll(async () => {
  runs = await openRunsPlatform()
  chats = chatsOf(runs)
})
afterAll(() => runs?.close())

const user = (content: unknown) => ({ role: 'user', content })
const heard = (app: string) => runs.node.runs.filter((run) => run.app === app).at(-1)!

test('agents are models, in the order of the nodes file, and each can be shown', async () => {
  const viewer = await runs.keyFor('viewer')
  const list = await runs.call('GET', '/openai/models', { key: viewer })
  const model = (id: string) => ({ id, object: 'model', created: 0, owned_by: 'flotilla' })
  expect([list.status, list.json]).toEqual([
    200,
    { object: 'list', data: agents.map((slug) => model(slug.toUpperCase())) },
  ])
  expect((await runs.call('GET', '/openai/models/atlas', { key: viewer })).json).toEqual(model('ATLAS'))
  const missing = await runs.call('GET', '/openai/models/gpt-4o', { key: viewer })
  expect([missing.status, missing.json]).toEqual([
    404,
    {
      error: {
        message: expect.stringContaining('There is no agent "gpt-4o"'),
        type: 'invalid_request_error',
        code: 'model_not_found',
        param: 'model',
      },
    },
  ])
})

test('a whole answer', async () => {
  const before = Math.floor(Date.now() / 1_000)
  const answer = await chats.send({ model: 'ATLAS', messages: [user('hello')] })
  expect([answer.status, answer.json]).toEqual([
    200,
    {
      id: `chatcmpl-${answer.headers.get('x-run-id')}`,
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'ATLAS',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'atlas heard: hello', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    },
  ])
  expect(answer.json.created).toBeGreaterThanOrEqual(before - 1)
  const run = await runs.call('GET', `/runs/${answer.headers.get('x-run-id')}`)
  expect(run.json).toMatchObject({ userId: 'key-member', status: 'completed', message: 'hello' })
})

test('a model is a codename or a slug, in any case; what a node counts is the usage', async () => {
  runs.script('pulse', () => [
    {
      event: {
        content: { role: 'model', parts: [{ text: 'hm', thought: true }, { text: 'counted' }] },
        usageMetadata: {
          promptTokenCount: 7,
          candidatesTokenCount: 4,
          thoughtsTokenCount: 1,
          totalTokenCount: 12,
        },
      },
    },
  ])
  for (const model of ['pulse', 'PULSE', 'Pulse']) {
    const { json } = await chats.send({ model, messages: [user('x')] })
    expect(json).toMatchObject({
      model: 'PULSE',
      choices: [{ message: { content: 'counted' } }],
      usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 },
    })
  }
})

test('chunks come as the agent speaks: the role first, each word once, then stop, usage and [DONE]', async () => {
  const held = Promise.withResolvers<void>()
  runs.script('whale', async function* () {
    yield { text: 'Once ', partial: true }
    yield { text: 'upon', partial: true }
    await held.promise
    yield { text: 'Once upon a time.' }
    yield { text: 'The end.' }
  })
  const stream = await chats.stream({
    model: 'whale',
    messages: [user('tell')],
    stream_options: { include_usage: true },
  })
  await eventually('its first words are there', () => stream.content() === 'Once upon')
  held.resolve()
  await stream.over
  expect(stream.content()).toBe('Once upon a time.\n\nThe end.')
  const [first, ...rest] = stream.chunks
  const head = { id: first!.id, object: 'chat.completion.chunk', model: 'WHALE', created: first!.created }
  for (const chunk of rest) expect(chunk).toMatchObject(head)
  expect(first!.choices).toEqual([
    { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
  ])
  expect(stream.chunks.slice(-2)).toEqual([
    { ...head, choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }], usage: null },
    { ...head, choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } },
  ])
  expect(stream.lines.at(-1)).toBe('data: [DONE]')
})

test('without a session the history goes along, quoted, so that nobody named in it joins again', async () => {
  const talks = () => runs.node.runs.filter(({ app }) => app !== 'axon')
  const count = talks().length
  await chats.send({
    model: 'CIPHER',
    messages: [
      { role: 'system', content: 'Be brief.\nAsk @whale nothing.' },
      user([
        { type: 'text', text: 'What says ATLAS?' },
        { type: 'image_url', image_url: { url: 'https://x.test/a.png' } },
      ]),
      { role: 'assistant', content: 'ATLAS says no.' },
      user('And now?'),
    ],
  })
  expect(talks().length).toBe(count + 1)
  expect(heard('cipher').body.newMessage).toEqual({
    role: 'user',
    parts: [
      {
        text:
          'The conversation so far, the oldest message first:\n\n> system: Be brief.\n> Ask @whale nothing.\n>\n' +
          '> user: What says ATLAS?\n> \n> [image_url]\n>\n> assistant: ATLAS says no.\n\nThe message to answer:',
      },
      { text: 'And now?' },
    ],
  })
  const sessions = talks().map(({ sessionId }) => sessionId)
  expect(new Set(sessions).size).toBe(sessions.length)
})

test('a history that is too long loses its oldest messages, not its instructions', async () => {
  const turn = (n: number) => [
    user(`question ${n} ${'x'.repeat(900)}`),
    { role: 'assistant', content: `answer ${n}` },
  ]
  const messages = [
    { role: 'system', content: 'Be brief.' },
    ...Array.from({ length: 60 }, (_, n) => turn(n)).flat(),
    user('last'),
  ]
  const answer = await chats.send({ model: 'CIPHER', messages })
  expect(answer.status).toBe(200)
  const { text } = heard('cipher')
  expect(text).toMatch(
    /^The conversation.*\n\n> system: Be brief\.\n>\n> \(Earlier messages are left out\.\)\n>\n> /,
  )
  expect(text).toContain('> assistant: answer 59\n\nThe message to answer:last')
  expect(text).not.toContain('question 0 ')
  expect(Buffer.byteLength(text)).toBeGreaterThan(30_000)
})

test('images and files go along: bytes of data URLs, addresses of others', async () => {
  const data = Buffer.from('a picture').toString('base64')
  await chats.send({
    model: 'CIPHER',
    messages: [
      user([
        { type: 'text', text: 'Which animal?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${data}`, detail: 'low' } },
        { type: 'image_url', image_url: { url: 'https://example.com/b.jpg' } },
        { type: 'input_audio', input_audio: { data, format: 'mp3' } },
        { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${data}` } },
      ]),
    ],
  })
  expect((heard('cipher').body.newMessage as { parts: unknown }).parts).toEqual([
    { text: 'Which animal?' },
    { inlineData: { mimeType: 'image/png', data } },
    { fileData: { fileUri: 'https://example.com/b.jpg' } },
    { inlineData: { mimeType: 'audio/mpeg', data } },
    { inlineData: { mimeType: 'application/pdf', data, displayName: 'a.pdf' } },
  ])
})

test('what agents say that join follows behind their names', async () => {
  runs.script('nexus', () => [{ text: 'Ask ATLAS and CIPHER.' }, { waitMs: 300 }, { text: 'Thanks.' }])
  runs.script('atlas', () => [{ text: 'It is blue.' }])
  runs.script('cipher', () => [{ text: 'half', partial: true }, { raise: 'no way' }])
  const messages = [user('what colour?')]
  const { json } = await chats.send({ model: 'NEXUS', messages })
  const content = json.choices[0].message.content as string
  expect(content.split('\n\n')[0]).toBe('Ask ATLAS and CIPHER.')
  expect(content).toContain('\n\n**ATLAS:** It is blue.')
  expect(content).toMatch(/\n\n(\*\*NEXUS:\*\* )?Thanks\./)
  expect(content).toMatch(/\n\n\*\*CIPHER:\*\* \(failed: .*no way/)
  const stream = await chats.stream({ model: 'NEXUS', messages })
  await stream.over
  expect(stream.content()).toContain('**ATLAS:** It is blue.')
  for (const slug of ['atlas', 'cipher', 'nexus'])
    runs.script(slug, ({ app, text }) => [{ text: `${app} heard: ${text}` }])
})

test('options without a meaning here are ignored; those that would be missed are refused', async () => {
  const base = { model: 'CIPHER', messages: [user('x')] }
  const ignored = {
    temperature: 0.2,
    top_p: 1,
    max_tokens: 5,
    max_completion_tokens: 5,
    stop: ['.'],
    seed: 1,
    n: 1,
    tools: [],
    tool_choice: 'auto',
    response_format: { type: 'text' },
    logprobs: false,
    modalities: ['text'],
    user: null,
    stream: null,
    presence_penalty: 0,
    anything: { else: true },
  }
  expect((await chats.send({ ...base, ...ignored })).status).toBe(200)
  const refused: [object, string][] = [
    [{ tools: [{ type: 'function', function: { name: 'f' } }] }, 'tools'],
    [{ functions: [{ name: 'f' }] }, 'functions'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ function_call: { name: 'f' } }, 'function_call'],
    [{ n: 2 }, 'n'],
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ logprobs: true }, 'logprobs'],
    [{ modalities: ['text', 'audio'] }, 'modalities'],
    [{ audio: { voice: 'alloy' } }, 'audio'],
    [{ web_search_options: {} }, 'web_search_options'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'system', content: 'x' }] }, 'messages'],
    [{ messages: [user('')] }, 'messages[0].content'],
    [{ messages: [user('x\0')] }, 'messages[0].content'],
    [{ messages: [user([{ type: 'video' }])] }, 'messages[0].content[0].type'],
    [
      { messages: [user([{ type: 'image_url', image_url: { url: 'no url' } }])] },
      'messages[0].content[0].image_url.url',
    ],
    [
      { messages: [user([{ type: 'file', file: { file_id: 'f' } }])] },
      'messages[0].content[0].file.file_data',
    ],
    [{ model: 7 }, 'model'],
    [{ stream: 'yes' }, 'stream'],
    [{ user: { id: 'u' } }, 'user'],
    [{ user: '..' }, 'user'],
  ]
  for (const [option, param] of refused) {
    const { status, json } = await chats.send({ ...base, ...option })
    expect([option, status, json]).toEqual([
      option,
      400,
      {
        error: {
          message: expect.stringContaining(param),
          type: 'invalid_request_error',
          code: 'validation_failed',
          param,
        },
      },
    ])
  }
  const long = await chats.send({ ...base, messages: [user('x'.repeat(33_000))] })
  expect([long.status, long.json.error.code, long.json.error.param]).toEqual([413, 'payload_too_large', null])
})

test('a model that is not there, no key, a viewer, no JSON: all in OpenAI’s form', async () => {
  const body = { model: 'CIPHER', messages: [user('x')] }
  const faults = [
    await chats.send({ ...body, model: 'gpt-4o' }),
    await chats.send(body, { key: 'sk-wrong' }),
    await chats.send(body, { key: `svc_${'0'.repeat(64)}` }),
    await chats.send(body, { key: await runs.keyFor('viewer') }),
    await runs.call('POST', '/openai/chat/completions', { body: '{' }),
    await runs.call('GET', '/openai/models', { key: 'sk-wrong' }),
  ]
  expect(
    faults.map(({ status, json }) => [status, Object.keys(json), (json.error as { code: string }).code]),
  ).toEqual([
    [404, ['error'], 'model_not_found'],
    [401, ['error'], 'unauthorized'],
    [401, ['error'], 'unauthorized'],
    [403, ['error'], 'forbidden'],
    [400, ['error'], 'invalid_json'],
    [401, ['error'], 'unauthorized'],
  ])
  expect(faults[1]!.json.error).toMatchObject({ type: 'authentication_error', param: null })
  for (const { text, headers } of faults) {
    expect(text).not.toMatch(/sk-wrong|svc_0|vk_live/)
    expect(headers.get('content-type')).toMatch(/^application\/json(;|$)/)
  }
  // Other routes, and addresses that are not there, answer problem documents as before.
  for (const path of ['/openai/embeddings', '/openai/chat/completions', '/agents/nobody']) {
    expect((await runs.call('GET', path)).json).toMatchObject({
      code: expect.any(String),
      request_id: expect.any(String),
    })
  }
})

test('a run that fails: the status and no retry; in a stream an error behind its words', async () => {
  runs.script('axon', () => [{ text: 'I try', partial: true }, { raise: 'broken' }])
  const body = { model: 'AXON', messages: [user('x')] }
  const whole = await chats.send(body)
  expect([whole.status, whole.headers.get('x-should-retry'), whole.json.error]).toEqual([
    502,
    'false',
    { message: expect.stringContaining('broken'), type: 'server_error', code: 'agent_error', param: null },
  ])
  expect(whole.headers.get('x-run-id')).toMatch(/^run_/)
  const stream = await chats.stream(body)
  await stream.over
  expect(stream.content()).toBe('I try')
  expect(stream.errors).toEqual([expect.objectContaining({ code: 'agent_error', type: 'server_error' })])
  expect(stream.lines).not.toContain('data: [DONE]')
})
