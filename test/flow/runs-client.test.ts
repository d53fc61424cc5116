/** The client against a real platform: over the run gateway with a gateway key, over the main API with an ID token. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, createMainApi, type MainApi, type Runs } from '#client/client.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'

let platform: MainApiPlatform
let client: Client
let api: MainApi

beforeAll(async () => {
  platform = await openMainApiPlatform({ NODES_PORT: '0' }, { agents: true })
  client = await platform.clientOf('scout', { runUrl: platform.addresses.agent_gateway_url })
  const { key } = await platform.issueKey('surveyor')
  api = createMainApi({ baseUrl: platform.baseUrl, agentKey: key })
})

afterAll(async () => {
  await client?.close()
  await api?.close()
  await platform?.close()
})

const callers: [string, string, () => Runs][] = [
  ['the run gateway', 'scout', () => client.runs],
  ['the main API', 'surveyor', () => api.runs],
]

test('over the run gateway the agents are listed, and one is found in any case', async () => {
  const agents = await client.agents.list()
  expect(agents.map(({ codename }) => codename)).toEqual([
    'WHALE',
    'PULSE',
    'CIPHER',
    'ATLAS',
    'NEXUS',
    'AXON',
  ])
  expect(await client.agents.get('Atlas')).toMatchObject({
    slug: 'atlas',
    role: 'Documentation and memory',
    skills: ['Search in documents', 'Passages and paths', 'Notes'],
  })
  await expect(client.agents.get('nobody/else')).rejects.toMatchObject({ code: 'agent_not_found' })
})

describe.each(callers)('over %s', (_name, self, calls) => {
  test('an agent answers, and one that is named joins', async () => {
    const { run, events } = await calls().run('ATLAS', 'What is new? @pulse may know.', { sessionId: 's' })
    expect(run).toMatchObject({ appName: 'ATLAS', userId: self, sessionId: 's', status: 'completed' })
    expect(events.map(({ author }) => author).sort()).toEqual(['ATLAS', 'PULSE'])
    expect(await calls().get(run.runId)).toMatchObject({
      runId: run.runId,
      joined: [{ agent: 'PULSE' }],
    })
    const listed = await calls().list({ agent: 'atlas', sessionId: 's' })
    expect(listed.runs.map(({ runId }) => runId)).toEqual([run.runId])
  })

  test('a stream is left, and read again from any event', async () => {
    const stream = await calls().stream('whale', 'What is new? @nexus may know.')
    for await (const event of stream) if (!event.partial) break
    expect([stream.lastEventId, stream.result]).toEqual([1, undefined])
    const rest = await calls().resume(stream.runId, { after: stream.lastEventId })
    const authors: string[] = []
    for await (const { author, partial } of rest) if (!partial) authors.push(author)
    expect(authors).toHaveLength(1)
    expect(rest.result?.status).toBe('completed')
    const own = await calls().resume(stream.runId, { join: false })
    for await (const { author } of own) expect(author).toBe('WHALE')
  })

  test('a session is listed, read in pages, followed over its messages, and deleted', async () => {
    const { sessions, list } = calls()
    const talk = { sessionId: 'talk/%1 x' }
    await calls().run('ATLAS', 'Any news?', talk)
    const { sessions: found } = await sessions.list({ agent: 'ATLAS', limit: 1 })
    expect(found).toMatchObject([{ ...talk, userId: self, runs: 1, lastMessage: 'Any news?' }])
    const first = await sessions.events(talk.sessionId, { limit: 1 })
    expect(first.events).toMatchObject([{ author: 'user', content: { parts: [{ text: 'Any news?' }] } }])
    const second = await sessions.events(talk.sessionId, { cursor: first.next! })
    expect(second.events.map(({ author }) => author)).toEqual(['ATLAS'])
    expect(second.next).toBeUndefined()

    const followed = sessions.follow(talk.sessionId)
    const authors: string[] = []
    for await (const { author } of followed) {
      authors.push(author)
      if (authors.length === 2) break
    }
    expect(authors).toEqual(['user', 'ATLAS'])
    const { run } = await calls().run('WHALE', 'And you?', talk)
    const rest = sessions.follow(talk.sessionId, { after: followed.position! })
    const said: string[] = []
    for await (const { author, invocationId } of rest) {
      expect(invocationId).toBe(run.runId)
      said.push(author)
      if (said.length === 2) break
    }
    expect(said).toEqual(['user', 'WHALE'])
    expect((await list({ sessionId: talk.sessionId })).runs.map(({ message }) => message)).toEqual([
      'And you?',
      'Any news?',
    ])
    expect(await sessions.delete(talk.sessionId)).toEqual({ ...talk, userId: self, deleted: true })
    await expect(sessions.events(talk.sessionId)).rejects.toMatchObject({ code: 'session_not_found' })
  })

  test('all agents are asked, and the orchestrator concludes', async () => {
    const { goalId, runs } = await calls().dispatch('What is new?')
    expect(runs).toHaveLength(5)
    const stream = await calls().dispatches.stream(goalId)
    const authors = new Set<string>()
    for await (const { author } of stream) authors.add(author)
    expect(authors.size).toBe(6)
    expect(stream.result).toMatchObject({
      status: 'completed',
      result: expect.stringMatching(/^\*\*All 5 agents answered\./),
    })
    expect(await calls().dispatches.cancel(goalId)).toMatchObject({ status: 'completed' })
  })

  test('missing agents, runs and dispatches are refused with their codes', async () => {
    await expect(calls().run('nobody', 'hello')).rejects.toMatchObject({
      code: 'agent_not_found',
      status: 404,
    })
    await expect(calls().get(`run_${'0'.repeat(32)}`)).rejects.toMatchObject({ code: 'run_not_found' })
    await expect(calls().dispatches.get(99_999)).rejects.toMatchObject({ code: 'dispatch_not_found' })
  })
})
