/** Run gateways as processes on distributed engines: one is killed in the middle of a stream, and another goes on. */

import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient } from '#client/client.ts'
import { confirmation } from '../support/asking-scripts.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../support/distributed-process.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { eventually } from '../support/eventually.ts'
import { readChat } from '../support/openai-chat.ts'
import { message, type TextEvent } from '../support/runs-platform.ts'
import { echoScript, openScriptedNode, type ScriptedNode, type Step } from '../support/scripted-node.ts'
import { readSse, type SseReader } from '../support/sse-reader.ts'

let servers: Stack
let processes: Processes
let node: ScriptedNode
let folder: string
let key: string
let gateways: { process: ServiceProcess; url: string }[]

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fl-nodes-'))
  node = await openScriptedNode({ whale: echoScript, pulse: echoScript, axon: echoScript })
  const file = join(folder, 'nodes.yaml')
  const nodes = Object.fromEntries([...node.scripts.keys()].map((slug) => [slug, { url: node.url }]))
  writeFileSync(file, JSON.stringify({ nodes }))
  servers = await openStack()
  processes = createProcesses({ ...(await servers.newEnvironment()), RUN_NODES_FILE: file })
  const base = await processes.start(
    servers.qdrant ? ['vector-gateway', 'outbox-publisher', 'run-dispatcher'] : [],
  )
  const others = servers.qdrant
    ? await Promise.all([processes.start(['run-gateway']), processes.start(['run-gateway'])])
    : [base]
  gateways = others.map((process) => ({ process, url: urlOf(process) }))
  const volume = join(folder, 'an-agent')
  const who = ['--agent-id', 'an-agent', '--tier', 'infra-architect', '--volume', volume]
  const { private_key_file: privateKeyFile } = await processes.run<{ private_key_file: string }>(
    ['agents', 'provision', ...who],
    servers.qdrant ? undefined : base.home,
  )
  const client = createClient({ vectorUrl: base.vectorUrl, agentId: 'an-agent', privateKeyFile })
  key = await client.apiKey()
  await client.close()
})
afterAll(async () => {
  await processes?.close()
  await servers?.close()
  await node?.close()
  rmSync(folder, { recursive: true, force: true })
})

function urlOf({ home }: ServiceProcess): string {
  return JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8')).agent_gateway_url
}

const run = (url: string, text: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/whale/run`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ newMessage: message(text) }),
  })

it('both gateways answer, and both follow every run', async () => {
  for (const { url } of gateways) {
    const answer = await run(url, 'hello')
    const given = await answer.json()
    expect(answer.status, JSON.stringify(given)).toBe(200)
    expect((given as TextEvent[]).map(({ author }) => author)).toEqual(['WHALE'])
    const runId = answer.headers.get('x-run-id')
    for (const other of gateways) {
      const stream = await readSse(`${other.url}/runs/${runId}/events`, { key })
      await stream.over
      expect(stream.ids()).toEqual([1])
    }
  }
})

it('a key that comes nine times at once, at both gateways, starts one run', async () => {
  const before = node.runs.filter(({ app }) => app === 'whale').length
  const idempotencyKey = randomUUID()
  const nine = await Promise.all(
    Array.from({ length: 9 }, (_, n) =>
      run(gateways[n % gateways.length]!.url, 'once', { 'idempotency-key': idempotencyKey }),
    ),
  )
  expect(nine.map(({ status }) => status)).toEqual(Array(9).fill(200))
  expect(new Set(nine.map(({ headers }) => headers.get('x-run-id'))).size).toBe(1)
  expect(new Set(await Promise.all(nine.map((answer) => answer.text()))).size).toBe(1)
  expect(node.runs.filter(({ app }) => app === 'whale')).toHaveLength(before + 1)
})

it('a question of a chat is answered at another gateway', async () => {
  node.scripts.set('pulse', confirmation)
  const chat = (url: string, content: string) =>
    fetch(`${url}/openai/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'x-session-id': 'chat',
      },
      body: JSON.stringify({ model: 'PULSE', stream: true, messages: [{ role: 'user', content }] }),
    })
  const [asked, answered] = [gateways[0]!, gateways.at(-1)!]
  const question = readChat(await chat(asked.url, 'pay'))
  await question.over
  expect([question.content(), question.lines.at(-1)]).toEqual([
    'Pay 7?\n\nApprove or refuse: pay {"amount":7}',
    'data: [DONE]',
  ])
  const answer = readChat(await chat(answered.url, 'yes'))
  await answer.over
  expect(answer.content()).toBe('Paid.')
  expect(answer.chunks[0].id).toBe(question.chunks[0].id)
})

it('a stream goes on at another gateway when its own is killed, with every id once', async (context) => {
  const [first, second] = gateways
  if (!first || !second) return context.skip()
  const count = 100
  node.scripts.set('whale', async function* (): AsyncGenerator<Step> {
    for (let n = 1; n <= count; n++) yield* [{ text: `event ${n}` }, { waitMs: 30 }]
  })
  const ids: number[] = []
  const reader = await readSse(`${first.url}/whale/run`, { key, body: { newMessage: message('x') } })
  const runId = reader.headers.get('x-run-id') as string
  const waiting = run(second.url, 'and one that waits')
  await eventually('some events have come', () => reader.ids().length > 20)
  first.process.child.kill('SIGKILL')
  expect(await reader.over).toBe(false)
  ids.push(...reader.ids())
  let rest: SseReader | undefined
  for (let turn = 0; !rest?.end(); turn++) {
    rest = await readSse(`${second.url}/runs/${runId}/events`, { key, lastEventId: String(ids.at(-1)) })
    if (turn < 3) {
      await eventually('one more has come', () => rest!.ids().length > 3 || rest!.end())
      rest.cut()
    }
    await rest.over
    ids.push(...rest.ids())
  }
  expect(ids).toEqual(Array.from({ length: count }, (_, n) => n + 1))
  expect(rest.end().run).toMatchObject({ runId, status: 'completed' })
  expect((await (await waiting).json()) as unknown[]).toHaveLength(count)
})
