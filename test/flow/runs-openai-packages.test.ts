/** A conversation with OpenAI's own package for TypeScript, and the requests of a chat window as it sends them. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import OpenAI, { APIError, AuthenticationError, BadRequestError, NotFoundError } from 'openai'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { confirmation } from '../support/asking-scripts.ts'
import { readChat } from '../support/openai-chat.ts'
import { agents, openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

let runs: RunsPlatform
let openai: OpenAI
let key: string
beforeAll(async () => {
  runs = await openRunsPlatform()
  // One key for good, as a chat window holds it.
  key = (await runs.issueKey('window', { access: 'member' })).key
  openai = new OpenAI({ apiKey: key, baseURL: `${runs.runUrl}/openai` })
})
afterAll(() => runs?.close())

test('its models', async () => {
  const ids: string[] = []
  for await (const { id } of openai.models.list()) ids.push(id)
  expect(ids).toEqual(agents.map((slug) => slug.toUpperCase()))
  expect(await openai.models.retrieve('atlas')).toMatchObject({ id: 'ATLAS', object: 'model' })
})

test('a conversation: whole, in chunks, and an approval in a session', async () => {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'hello' }]
  const first = await openai.chat.completions.create({ model: 'ATLAS', messages })
  expect(first.choices[0]!.message.content).toBe('atlas heard: hello')
  messages.push(first.choices[0]!.message, { role: 'user', content: 'and now?' })
  const stream = await openai.chat.completions.create({
    model: 'ATLAS',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  })
  let said = ''
  let usage: OpenAI.CompletionUsage | null | undefined
  for await (const chunk of stream) {
    said += chunk.choices[0]?.delta.content ?? ''
    usage = chunk.usage
  }
  expect(said).toContain('> user: hello\n>\n> assistant: atlas heard: hello')
  expect(said).toMatch(/and now\?$/)
  expect(usage).toEqual({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })

  runs.script('pulse', confirmation)
  const say = async (content: string) => {
    const helper = openai.chat.completions.stream(
      { model: 'PULSE', messages: [{ role: 'user', content }] },
      { headers: { 'X-Session-Id': session } },
    )
    return helper.finalContent()
  }
  const session = `pay-${randomUUID()}`
  expect(await say('pay')).toBe('Pay 7?\n\nApprove or refuse: pay {"amount":7}')
  expect(await say('approve')).toBe('Paid.')
})

test('its errors are those of its classes, and a failed run is not started again', async () => {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'x' }]
  const create = (more: object = {}, client = openai) =>
    client.chat.completions.create({ model: 'ATLAS', messages, ...more }) as Promise<unknown>
  const wrong = new OpenAI({ apiKey: `svc_${'0'.repeat(64)}`, baseURL: `${runs.runUrl}/openai` })
  await expect(create({}, wrong)).rejects.toThrow(AuthenticationError)
  await expect(create({ model: 'gpt-4o' })).rejects.toThrow(NotFoundError)
  const refused = await create({ n: 2 }).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(BadRequestError)
  expect(refused).toMatchObject({ status: 400, code: 'validation_failed', param: 'n' })

  runs.script('cipher', () => [{ text: 'I try', partial: true }, { raise: 'broken' }])
  const failed = await create({ model: 'CIPHER' }).catch((error: unknown) => error)
  expect(failed).toMatchObject({
    status: 502,
    code: 'agent_error',
    message: expect.stringContaining('broken'),
  })
  expect(runs.node.runs.filter(({ app }) => app === 'cipher')).toHaveLength(1)
  const stream = (await create({
    model: 'CIPHER',
    stream: true,
  })) as AsyncIterable<OpenAI.ChatCompletionChunk>
  let said = ''
  const ended = await (async () => {
    for await (const chunk of stream) said += chunk.choices[0]?.delta.content ?? ''
  })().catch((error: unknown) => error)
  expect(ended).toBeInstanceOf(APIError)
  expect([said, ended]).toEqual(['I try', expect.objectContaining({ code: 'agent_error' })])
})

interface Recorded {
  method: string
  path: string
  headers: Record<string, string>
  body?: object
}

const recorded = JSON.parse(
  readFileSync(new URL('../data/openai/open-webui.json', import.meta.url), 'utf8'),
) as Record<'models' | 'chat' | 'again' | 'title', Recorded>

/** As Open WebUI fills in its connection: address, key, and headers with the id of the chat. */
function replay({ method, path, headers, body }: Recorded, chatId?: string): Promise<Response> {
  const filled = Object.entries(headers).map(([name, value]) => [
    name,
    value.replace('{{KEY}}', key).replace('{{CHAT_ID}}', chatId ?? ''),
  ])
  return fetch(`${runs.runUrl}/openai${path}`, {
    method,
    headers: Object.fromEntries(filled) as Record<string, string>,
    ...(body ? { body: JSON.stringify(body) } : {}),
  })
}

test('Open WebUI lists the models, chats in a stream, goes on, and asks for a title', async () => {
  const models = await replay(recorded.models)
  expect(await models.json()).toMatchObject({ object: 'list', data: [{ id: 'WHALE' }, {}, {}, {}, {}, {}] })
  const chatId = randomUUID()
  const first = readChat(await replay(recorded.chat, chatId))
  await first.over
  expect([first.status, first.content()]).toEqual([200, 'atlas heard: Where is the courier described?'])
  const second = readChat(await replay(recorded.again, chatId))
  await second.over
  expect(second.content()).toBe('atlas heard: And in which chapter?')
  expect(second.chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 0 } })
  const talks = runs.node.runs.filter(({ sessionId }) => sessionId === chatId)
  expect(talks.map(({ text }) => text)).toEqual(['Where is the courier described?', 'And in which chapter?'])

  // Without the header in the connection's settings the history goes along.
  const alone = readChat(await replay(recorded.again))
  await alone.over
  expect(alone.content()).toContain('> user: Where is the courier described?')
  const title = (await (await replay(recorded.title)).json()) as OpenAI.ChatCompletion
  expect(title.choices[0]!.message.content).toMatch(/^atlas heard: ### Task:/)
})
