/** Kafka, Postgres and the registry go away under a relay, and come back: it says so in time, and goes on by itself. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { type Gate, openGate } from '../support/distributed-gate.ts'
import { type DistributedServers, openDistributedServers } from '../support/distributed-servers.ts'
import { eventually } from '../support/eventually.ts'
import { recordsOf } from '../support/log-reading.ts'
import { openRelayPlatform, type RelayPlatform } from '../support/relay-platform.ts'

let servers: DistributedServers
let postgres: Gate
let registry: Gate
let relay: RelayPlatform
const targets = ['a', 'b'].map((name) => `  ${name}:\n    url: http://127.0.0.1:1/\n`).join('')

beforeAll(async () => {
  servers = await openDistributedServers()
  const { QDRANT_URL: _, ...env } = await servers.newEnvironment()
  postgres = await openGate(env.DATABASE_URL as string)
  registry = await openGate(env.SCHEMA_REGISTRY_URL as string)
  relay = await openRelayPlatform({
    targets: `targets:\n${targets}`,
    env: { ...env, DATABASE_URL: postgres.url, SCHEMA_REGISTRY_URL: registry.url },
  })
})
afterAll(async () => {
  await relay?.close()
  postgres?.cut()
  registry?.cut()
  await servers?.close()
})

/** Two seconds are promised; the rest is for a machine that has more to do. */
const answerMsMax = 4_000
const promised: string[] = []
let fires = 0

async function fire(query = '') {
  const begun = Date.now()
  const taskId = `t${fires++}`
  const event = { event: 'task.completed', agent: 'W', task_id: taskId, result: null, ts: 1 }
  const answer = await relay.fire(event, query)
  expect(Date.now() - begun).toBeLessThan(answerMsMax)
  if (answer.status === 202) {
    for (const { target } of answer.json.deliveries as { target: string }[])
      promised.push(`${target} ${taskId}`)
  }
  return answer
}

/** On a machine that has more to do the log may be late once. */
const accepted = (query = '') => eventually('202', async () => (await fire(query)).status === 202, 30_000)

test('Postgres and registry away: known targets go on, a new one waits for its partition', async () => {
  await accepted()
  postgres.cut()
  registry.cut()
  await accepted()
  relay.writeTargets(`targets:\n${targets}  late:\n    url: http://127.0.0.1:1/\n`)
  const refused = await eventually('the new target is known', async () => {
    const answer = await fire('?targets=late')
    return answer.status === 400 ? null : answer
  })
  expect([refused.status, refused.json.code]).toEqual([503, 'relational_engine_unavailable'])
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  await accepted('?targets=a')
  await postgres.mend()
  await registry.mend()
  await eventually(
    'the new target has a partition',
    async () => (await fire('?targets=late')).status === 202,
    60_000,
  )
}, 180_000)

test('Kafka away: 503 in time and a health answer that says so; back: it goes on, and nothing accepted is lost', async () => {
  await servers.kafka.kill9(1)
  const refused = await fire()
  expect([refused.status, refused.json.code]).toEqual([503, 'log_unavailable'])
  expect(refused.json.deliveries).toBeUndefined()
  await eventually('health fails', async () => {
    const begun = Date.now()
    const health = await relay.get('/health')
    expect(Date.now() - begun).toBeLessThan(answerMsMax)
    return health.status === 200 && health.json.status === 'fail'
  })
  await servers.kafka.start(1)
  await eventually('it goes on', async () => (await fire()).status === 202, 90_000)
  await eventually('health passes', async () => (await relay.get('/health')).json.status !== 'fail', 60_000)
  const stored = (await recordsOf(relay.platform, webhooksDeliveries)).map(
    ({ key, value }) => `${key} ${value!.task_id}`,
  )
  expect(promised.filter((one) => !stored.includes(one))).toEqual([])
}, 240_000)
