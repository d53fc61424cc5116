/** A real Postgres dies under searches by SQL and comes back: each answer is right or a problem that says when to come again. */

import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Client } from '#client/client.ts'
import { openPostgres, type RunningPostgres } from '../../scripts/servers/postgres.ts'
import { eventually } from '../support/eventually.ts'
import { type Answer, call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { axisVector } from '../support/points.ts'

const points = 40
const searchers = 4

let postgres: RunningPostgres
let away = false
let gateway: GatewayPlatform
let client: Client
let key: string

beforeAll(async () => {
  postgres = await openPostgres()
  gateway = await openGatewayPlatform({ DATABASE_URL: postgres.url }, { mirror: true })
  client = await gateway.clientOf('whale', { timeoutMs: 60_000 })
  key = await client.apiKey()
  const given = Array.from({ length: points }, (_, n) => ({
    id: `p${n}`,
    vector: vectorOf(n),
    payload: { status: n % 2 === 0 ? 'active' : 'archived', n },
  }))
  const { operation_id: after } = await client.upsert('posts', given)
  await eventually('the points are there', async () => (await search(0, { after })).status === 200, 120_000)
}, 240_000)

/** That of a first try that failed may be away. */
async function startPostgres(): Promise<void> {
  if (away) await postgres.start()
  away = false
}
beforeEach(startPostgres)

afterAll(async () => {
  await gateway?.close()
  await postgres?.close()
})

/** On a circle: a graph index needs a slope to walk along. */
function vectorOf(n: number): number[] {
  const angle = (2 * Math.PI * n) / points
  return axisVector(0).fill(Math.cos(angle), 0, 1).fill(Math.sin(angle), 1, 2)
}

type Numbered = Answer & { n: number }

async function search(n: number, more: Record<string, unknown> = {}): Promise<Numbered> {
  const body = { table: 'embeddings', vector: vectorOf(n % points), limit: 1, ...more }
  const answer = await call(gateway.vectorUrl, '/v1/vectors/search-pg', { key, body })
  return { ...answer, n }
}

/** Searches, with a filter and without, until it is asked to stop. */
function startSearching() {
  const answers: Numbered[] = []
  let over = false
  const running = Array.from({ length: searchers }, async (_, who) => {
    for (let n = who; !over; n += searchers) {
      const filter_sql = `collection = 'posts' AND status IN ('active', 'archived')`
      answers.push(await search(n, n % 3 === 0 ? { filter_sql } : {}))
    }
  })
  onTestFinished(() => {
    over = true
  })
  return {
    answers,
    async stop() {
      over = true
      await Promise.all(running)
      return answers
    },
  }
}

/** Every answer is right, or a typed problem with the time of a retry. */
function check(answers: Numbered[]): void {
  for (const { status, json, headers, n } of answers) {
    if (status === 200) {
      expect((json.results as { id: string }[]).map(({ id }) => id)).toEqual([`p${n % points}`])
      continue
    }
    expect([status, json.code]).toEqual([503, 'relational_engine_unavailable'])
    expect(json.retryAfter).toBeGreaterThan(0)
    expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
    expect(headers.get('content-type')).toContain('application/problem+json')
  }
}

const failedOf = (answers: Numbered[]) => answers.filter(({ status }) => status !== 200)

/** So many searches in a row are answered with their hits again. */
async function goesOn(searching: ReturnType<typeof startSearching>): Promise<void> {
  const wellAgain = () => searching.answers.length > 20 && failedOf(searching.answers.slice(-20)).length === 0
  await eventually('searches are answered', wellAgain, 120_000)
}

test('one of its processes is killed: it starts over by itself, and so do the searches', async () => {
  const searching = startSearching()
  await goesOn(searching)
  const reading = async () => {
    const { rows } = await gateway.platform.engines.relational.query<{ pid: number }>(
      `select pid from pg_stat_activity where application_name = 'flotilla-reader'`,
    )
    return rows.map(({ pid }) => pid)
  }
  const [victim, ...others] = await reading()
  process.kill(victim!, 'SIGKILL')
  // The server ends all of its connections then, because their memory may be damaged.
  const left = async () => !(await reading()).some((pid) => pid === victim || others.includes(pid))
  await eventually('the server has started over', left, 60_000)
  await goesOn(searching)
  check(await searching.stop())
}, 240_000)

test('all of it is killed and started again: searches and writes go on by themselves, and nothing is parked', async () => {
  const searching = startSearching()
  await goesOn(searching)
  away = true
  await postgres.kill9()
  await eventually('searches fail', () => failedOf(searching.answers).length > 20, 60_000)
  // Points accepted meanwhile are in the log, and wait there for their table.
  const accepted = await Promise.all(
    Array.from({ length: 10 }, (_, n) => {
      const point = { id: `later-${n}`, vector: axisVector(1_000 + n), payload: { n } }
      return call(gateway.vectorUrl, '/v1/vectors/upsert', {
        key,
        body: { collection: 'posts', points: [point] },
      })
    }),
  )
  expect(accepted.map(({ status }) => status)).toEqual(new Array(10).fill(202))
  const health = () => call(gateway.vectorUrl, '/v1/health')
  await eventually('health reports it', async () => (await health()).status === 503, 60_000)
  await startPostgres()
  await goesOn(searching)
  check(await searching.stop())
  for (const { json } of accepted) {
    const after = json.operation_id
    await eventually('it is found', async () => (await search(0, { after })).status === 200, 120_000)
  }
  const found = await search(0, { filter_sql: `id LIKE 'later-%'`, limit: 100 })
  expect(found.json.results).toHaveLength(10)
  await eventually('health is well', async () => (await health()).status === 200, 60_000)
  const parked = gateway.lines.filter((line) => line.includes('consumer.record-parked'))
  expect(parked).toEqual([])
}, 300_000)
