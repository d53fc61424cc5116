/** Every call of the TypeScript client, with every option, as requests that a recorder keeps. */

import { generateKeyPairSync } from 'node:crypto'
import { createClient } from '#client/client.ts'

export interface SentCall {
  /** The interface by its port below. */
  port: string
  method: string
  path: string
  query: string[]
  /** Names of the body's fields. */
  body: string[]
}

const ports = { vector: '1', hub: '2', run: '3', main: '4', relay: '5' }

/** The name of the interface that listens there. */
export const interfaceAt: Record<string, string> = {
  [ports.vector]: 'vector-gateway',
  [ports.hub]: 'hub',
  [ports.run]: 'run-gateway',
  [ports.main]: 'main-api',
  [ports.relay]: 'webhook-relay',
}

const urlOf = (port: string) => `http://platform.test:${port}`

/** Sends everything that the client can send; answers hold just enough for it to go on. */
export async function sentByClient(): Promise<SentCall[]> {
  const sent: SentCall[] = []
  const record = async (input: string | URL | Request, init: RequestInit = {}) => {
    const { port, pathname, searchParams } = new URL(String(input))
    const given = init.body === undefined ? {} : (JSON.parse(String(init.body)) as object)
    sent.push({
      port,
      method: init.method ?? 'GET',
      path: pathname,
      query: [...new Set(searchParams.keys())],
      body: Object.keys(given),
    })
    const isStream = new Headers(init.headers).get('accept') === 'text/event-stream'
    if (isStream || pathname === '/goals/events' || pathname === '/fleet_notes/events') {
      return new Response('data: {"author":"gateway","customMetadata":{"run":{"status":"completed"}}}\n\n', {
        headers: { 'x-run-id': 'run_1', 'content-type': 'text/event-stream' },
      })
    }
    return Response.json({
      ...{ api_key: 'k', expires_in: 3_600, client_nonce: 'a', server_nonce: 'b', status: 'applied' },
      ...{
        customToken: 'c',
        idToken: 'i',
        expiresIn: '3600',
        results: [],
        answers: [],
        points: [],
        collections: [],
      },
      data: { customToken: 'c', runId: 'run_1', lastEventId: 0, records: [] },
      runId: 'run_1',
    })
  }
  const client = createClient({
    home: '/nowhere',
    vectorUrl: urlOf(ports.vector),
    hubUrl: urlOf(ports.hub),
    runUrl: urlOf(ports.run),
    baseUrl: urlOf(ports.main),
    webhookUrl: urlOf(ports.relay),
    agentId: 'whale',
    privateKeyPem: generateKeyPairSync('ed25519').privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    }) as string,
    agentKey: 'svc_1',
    fetch: record as typeof fetch,
    attemptsMax: 1,
  })
  // Answers are not those of the platform: what a call makes of them does not matter here.
  await Promise.allSettled(callsOf(client))
  await client.close()
  return sent
}

function callsOf(client: ReturnType<typeof createClient>): Promise<unknown>[] {
  const { memory, notes, goals, runs, agents, schedules, webhooks, main } = client
  const filter = { must: [{ key: 'a', match: { value: 1 } }] }
  const long = { must: [{ key: 'a', match: { value: 'x'.repeat(8_000) } }] }
  const read = { filter, withPayload: true, withVector: true, after: 'o' }
  const search = { ...read, collection: 'posts', limit: 1, scoreThreshold: 0.5 }
  const page = { limit: 1, cursor: 'c' }
  const words = { status: 'active', priority: 'high', author: 'whale' } as const
  const message = {
    ...{ userId: 'u', sessionId: 's', stateDelta: {}, customMetadata: {}, metadata: { a: 'b' } },
    ...{ onBusy: 'reject' as const, join: false },
  }
  const schedule = {
    ...{
      name: 'n',
      agent: 'atlas',
      dispatch: false,
      message: 'm',
      parts: [],
      cron: '* * * * *',
      timezone: 'UTC',
    },
    ...{ at: '2030-01-01T00:00:00Z', session: 'new', missed: 'skip' as const, paused: false },
    endsAt: '2030-01-01T00:00:00Z',
  }
  const event = { event: 'task.completed', agent: 'whale', task_id: 't', result: {}, ts: 1 } as const
  const first = async (stream: AsyncIterable<unknown>) => {
    for await (const _ of stream) return
  }
  const runFilter = {
    ...{ ...page, agent: 'atlas', status: 'failed' as const, userId: 'u', sessionId: 's', goalId: 1 },
    ...{ rootRunId: 'r' },
  }
  return [
    memory.upsert('posts', [{ id: 'a', vector: [1] }], { wait: true, idempotencyKey: 'k' }),
    memory.search({ ...search, vector: [1] }),
    memory.search({ ...search, text: 't' }),
    memory.searchBatch([search, search]),
    memory.searchPg({
      ...{ table: 't', vector: [1], limit: 1, filterSql: 'a = 1', withPayload: true, withVector: true },
      after: 'o',
    }),
    memory.scroll({ ...read, collection: 'posts', limit: 1, offset: 'a', orderBy: { key: 'updated_at' } }),
    memory.count('posts', { filter, after: 'o' }),
    memory.get('posts', 'a', { after: 'o' }),
    memory.getMany('posts', ['a', 'b'], { after: 'o' }),
    // Too long for an address: in the body.
    memory.getMany('posts', Array(1_000).fill('long-id'), { after: 'o' }),
    memory.count('posts', { filter: long, after: 'o' }),
    memory.delete('posts', ['a'], { wait: true }),
    memory.deleteWhere('posts', filter, { wait: true, after: 'o' }),
    memory.setPayload('posts', ['a'], { set: { a: 1 }, remove: ['b'] }, { wait: true }),
    memory.collections.list(),
    memory.collections.create('own', { description: 'd' }),
    memory.collections.get('own'),
    memory.collections.delete('own'),
    memory.collections.index('own', 'a', 'keyword'),
    client.operation('o'),
    client.embeddings('a'),
    client.stats(),
    client.debugAgent(),
    client.health(),
    notes.list({ ...page, ...words, thread_id: 't' }),
    notes.create({ subject: 's', body: 'b', priority: 'high', thread_id: 't', parent_id: 1 }),
    notes.get(1),
    notes.update(1, { subject: 's', body: 'b', priority: 'high', status: 'archived' }),
    notes.thread(1, page),
    first(notes.events()),
    goals.list({ ...page, ...words }),
    goals.create({ title: 't', description: 'd', priority: 'high' }),
    goals.get(1),
    goals.update(1, { title: 't', description: 'd', priority: 'high', status: 'failed' }),
    first(goals.events()),
    runs.run('atlas', 'm', message),
    runs.start('atlas', 'm', message),
    runs.resume('run_1', { join: false }).then(first),
    runs.get('run_1'),
    runs.list(runFilter),
    runs.cancel('run_1'),
    runs.input('run_1', 'yes'),
    runs.inputStream('run_1', [{ text: 'yes' }]),
    runs.sessions.list({ ...page, userId: 'u', agent: 'atlas' }),
    runs.sessions.events('s', { ...page, userId: 'u' }),
    first(runs.sessions.follow('s', { userId: 'u' })),
    runs.sessions.delete('s', { userId: 'u' }),
    runs.dispatch('m', { userId: 'u', sessionId: 's', metadata: { a: 'b' } }),
    runs.dispatches.get(1),
    runs.dispatches.cancel(1),
    runs.dispatches.stream(1).then(first),
    agents.list(),
    agents.get('atlas'),
    schedules.create(schedule),
    schedules.list(page),
    schedules.get('x'),
    schedules.update('x', schedule),
    schedules.delete('x'),
    schedules.runs('x', page),
    webhooks.fire({ ...event, idempotency_key: 'k' }, { targets: ['a'] }),
    main.me(),
    main.brainState(),
    first(client.records('hub.records', { from: 'end' })),
    first(main.records('hub.records', { from: 'end', follow: false })),
  ]
}
