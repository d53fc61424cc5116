/** What the client repeats: the cases of retry-cases.json, which the client in Python is held to as well. */

import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type Client, createClient, ProblemError } from '../src/client.ts'

interface Case {
  call: string
  answers: string[]
  sent: number
  code: string | null
}

const { cases } = JSON.parse(readFileSync(new URL('./retry-cases.json', import.meta.url), 'utf8')) as {
  cases: Case[]
}
const privateKeyPem = generateKeyPairSync('ed25519').privateKey.export({
  type: 'pkcs8',
  format: 'pem',
}) as string

const points = [{ id: 'p', vector: [1] }]
const note = { subject: 's', body: 'b' }
const calls: Record<string, (client: Client) => Promise<unknown>> = {
  search: (client) => client.search({ collection: 'posts', vector: [1] }),
  scroll: (client) => client.scroll({ collection: 'posts' }),
  count: (client) => client.count('posts'),
  get: (client) => client.get('posts', 'p'),
  delete: (client) => client.delete('posts', ['p']),
  setPayload: (client) => client.setPayload('posts', ['p'], { set: { a: 1 } }),
  embeddings: (client) => client.embeddings('a'),
  health: (client) => client.health(),
  upsert: (client) => client.upsert('posts', points),
  'upsert with a key': (client) => client.upsert('posts', points, { idempotencyKey: 'k' }),
  'create a note': (client) => client.notes.create(note),
  'create a note with a key': (client) => client.notes.create(note, { idempotencyKey: 'k' }),
  'change a note': (client) => client.notes.update(1, { subject: 's' }),
  dispatch: (client) => client.runs.dispatch('Who?'),
  'cancel a run': (client) => client.runs.cancel('run_1'),
  'delete a session': (client) => client.runs.sessions.delete('s'),
  fire: (client) => client.webhooks.fire({ event: 'task.completed', agent: 'whale', task_id: '1' }),
}

/** The answer that a case names; what happens in place of one is thrown. */
function answerOf(text: string): Response {
  if (text === 'no answer') throw new TypeError('fetch failed')
  if (text === 'timeout') throw Object.assign(new Error('slow'), { name: 'TimeoutError' })
  if (text === '200') return Response.json({})
  const [status, code] = text.split(' ')
  const init = { status: Number(status) }
  return code === 'html' ? new Response('<html></html>', init) : Response.json({ code, detail: 'd' }, init)
}

/** Answers handshakes by itself, and everything else as the case says. */
function clientOver(answers: readonly string[]) {
  let sent = 0
  const fake = async (input: string | URL | Request) => {
    const { pathname } = new URL(String(input))
    if (pathname.endsWith('/handshake')) return Response.json({ client_nonce: 'a', server_nonce: 'b' })
    if (pathname.endsWith('/verify')) return Response.json({ api_key: 'k', expires_in: 3_600 })
    sent += 1
    return answerOf(answers[sent - 1]!)
  }
  const client = createClient({
    vectorUrl: 'http://gateway.test',
    agentId: 'whale',
    privateKeyPem,
    fetch: fake as typeof fetch,
    sleep: async () => {},
  })
  return { client, sent: () => sent }
}

test.each(cases)('$call after $answers is sent $sent times', async ({ call, answers, sent, code }) => {
  const world = clientOver(answers)
  const fault = await calls[call]!(world.client).then(
    () => null,
    (error: unknown) => error,
  )
  expect(fault instanceof ProblemError ? fault.code : fault).toBe(code)
  expect(world.sent()).toBe(sent)
})
