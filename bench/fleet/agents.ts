/** The simulated agents: their credentials, the acknowledged writes of each, and the requests that they send. */

import { Pool } from 'undici'
import { createRandom } from '../points.ts'
import { collection, groupsPerAgent, type Kind, lastWords, pointsPerGroup, workerName } from './mix.ts'

/** `baseUrl` is the main API's. */
export interface Addresses {
  vectorUrl: string
  hubUrl: string
  runUrl: string
  relayUrl: string
  baseUrl: string
}

/** Points that are written by one request. */
interface Group {
  /** Number of the last request that was acknowledged, and of the last that was sent; 0 for none. */
  acknowledged: number
  sent: number
  busy: boolean
}

export interface Agent {
  id: string
  key: string
  groups: Group[]
}

/** Acknowledged work besides points. */
export interface Kept {
  notes: { agent: Agent; id: number; text: string }[]
  goals: { agent: Agent; id: number; text: string }[]
  runs: { agent: Agent; id: string }[]
  /** Target → sequences that the relay answered. */
  fired: Record<string, number[]>
}

export interface Fleet {
  agents: Agent[]
  kept: Kept
  /** An ID token of an agent that may read everything. */
  adminToken: string
  pools: Record<keyof Addresses, Pool>
  /** Vectors as JSON, made once: the load generator has no time to make them. */
  vectors: string[]
  /** 0..1, for what the requests hold. */
  random: () => number
  numbers: number
}

/** A problem document, or no answer at all. */
export class RequestFault extends Error {
  readonly code: string
  constructor(code: string, detail: string) {
    super(`${code}: ${detail}`)
    this.code = code
  }
}

const timeoutMs = 90_000
const connectionsMax = 256

export function createFleet(
  agents: { id: string; key: string }[],
  addresses: Addresses,
  adminToken: string,
  vectors: string[],
): Fleet {
  const newGroup = (): Group => ({ acknowledged: 0, sent: 0, busy: false })
  const newPool = (name: keyof Addresses) =>
    new Pool(addresses[name], {
      connections: connectionsMax,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    })
  return {
    agents: agents.map((agent) => ({ ...agent, groups: Array.from({ length: groupsPerAgent }, newGroup) })),
    kept: { notes: [], goals: [], runs: [], fired: {} },
    adminToken,
    pools: {
      vectorUrl: newPool('vectorUrl'),
      hubUrl: newPool('hubUrl'),
      runUrl: newPool('runUrl'),
      relayUrl: newPool('relayUrl'),
      baseUrl: newPool('baseUrl'),
    },
    vectors,
    random: createRandom(23),
    numbers: 0,
  }
}

export interface Asked {
  at: keyof Addresses
  path: string
  /** Absent: GET. */
  body?: string
  token?: string
  accept?: string
}

/** The whole answer. Throws RequestFault for any status but 200 to 202. */
export async function ask(fleet: Fleet, { at, path, body, token, accept }: Asked) {
  const answer = await fleet.pools[at]
    .request({
      method: body === undefined ? 'GET' : 'POST',
      path,
      ...(body === undefined ? {} : { body }),
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(accept === undefined ? {} : { accept }),
      },
    })
    .catch((error: Error) => {
      throw new RequestFault('no_answer', error.message)
    })
  const text = await answer.body.text().catch((error: Error) => {
    throw new RequestFault('answer_broken', error.message)
  })
  if (answer.statusCode >= 200 && answer.statusCode <= 202) return { text, headers: answer.headers }
  const code = /"code":"([a-z_]+)"/.exec(text)?.[1] ?? `http_${answer.statusCode}`
  throw new RequestFault(code, text.slice(0, 300))
}

/** Sends one request of a kind; `at` is when it should have left, by `sharedNow`. Throws RequestFault. */
export function send(fleet: Fleet, kind: Kind, agent: Agent, at: number): Promise<void> {
  return requests[kind](fleet, agent, at)
}

const requests: Record<Kind, (fleet: Fleet, agent: Agent, at: number) => Promise<void>> = {
  async search(fleet, { key }) {
    const body = `{"collection":"${collection}","limit":10,"vector":${pick(fleet, fleet.vectors)}}`
    await ask(fleet, { at: 'vectorUrl', path: '/v1/vectors/search', body, token: key })
  },
  async upsert(fleet, agent) {
    const free = agent.groups.filter(({ busy }) => !busy)
    if (free.length === 0) throw new RequestFault('all_groups_busy', 'earlier upserts of the agent still run')
    await upsertGroup(fleet, agent, pick(fleet, free))
  },
  async note(fleet, agent) {
    const text = textOf(fleet, agent)
    const body = JSON.stringify({ subject: text, body: 'It was seen on the way. '.repeat(10) })
    const made = await ask(fleet, { at: 'hubUrl', path: '/fleet_notes/', body, token: agent.key })
    fleet.kept.notes.push({ agent, id: idOf(made.text), text })
  },
  async goal(fleet, agent) {
    const text = textOf(fleet, agent)
    const made = await ask(fleet, {
      at: 'hubUrl',
      path: '/goals/',
      body: JSON.stringify({ title: text }),
      token: agent.key,
    })
    fleet.kept.goals.push({ agent, id: idOf(made.text), text })
  },
  async run(fleet, agent) {
    const streams = fleet.random() < 0.5
    const newMessage = { role: 'user', parts: [{ text: textOf(fleet, agent) }] }
    const { text, headers } = await ask(fleet, {
      at: 'runUrl',
      path: `/${workerName}/run`,
      body: JSON.stringify({ newMessage }),
      token: agent.key,
      ...(streams ? { accept: 'text/event-stream' } : {}),
    })
    fleet.kept.runs.push({ agent, id: String(headers['x-run-id']) })
    if (!text.includes(lastWords)) throw new RequestFault('run_incomplete', text.slice(0, 300))
  },
  async fire(fleet, agent, at) {
    const event = {
      event: fleet.random() < 0.5 ? 'task.failed' : 'task.completed',
      agent: agent.id,
      task_id: `fired-${++fleet.numbers}`,
      result: { at },
      ts: Math.floor(Date.now() / 1_000),
    }
    const path = '/api/v1/webhooks/fire'
    const { text } = await ask(fleet, { at: 'relayUrl', path, body: JSON.stringify(event) })
    const { deliveries } = JSON.parse(text) as { deliveries: { target: string; sequence: number }[] }
    for (const { target, sequence } of deliveries) {
      fleet.kept.fired[target] ??= []
      fleet.kept.fired[target].push(sequence)
    }
  },
  async get(fleet, agent) {
    const group = Math.floor(fleet.random() * groupsPerAgent)
    const path = `/v1/vectors/get?collection=${collection}&id=${pointId(agent, group, 0)}`
    await ask(fleet, { at: 'vectorUrl', path, token: agent.key })
  },
  async state(fleet) {
    await ask(fleet, { at: 'baseUrl', path: '/api/v1/brain/state', token: fleet.adminToken })
  },
}

/** All points of a group get its next version. */
export async function upsertGroup(fleet: Fleet, agent: Agent, group: Group): Promise<void> {
  const version = ++group.sent
  group.busy = true
  try {
    const n = agent.groups.indexOf(group)
    const points = Array.from({ length: pointsPerGroup }, (_, i) => {
      const id = pointId(agent, n, i)
      const payload = JSON.stringify({ title: `Point ${id}`, agent: agent.id, version, tags: ['bench'] })
      return `{"id":"${id}","vector":${pick(fleet, fleet.vectors)},"payload":${payload}}`
    })
    const body = `{"collection":"${collection}","points":[${points.join(',')}]}`
    await ask(fleet, { at: 'vectorUrl', path: '/v1/vectors/upsert', body, token: agent.key })
    group.acknowledged = version
  } finally {
    group.busy = false
  }
}

export function pointId(agent: Agent, group: number, point: number): string {
  return `${agent.id}-${group}-${point}`
}

function textOf(fleet: Fleet, agent: Agent): string {
  return `Word ${++fleet.numbers} of ${agent.id}`
}

function idOf(text: string): number {
  return (JSON.parse(text) as { id: number }).id
}

function pick<T>({ random }: Fleet, all: readonly T[]): T {
  return all[Math.floor(random() * all.length)]!
}
