/** Kafka, Postgres and the registry go away under a relay, and come back: it answers with typed problems, and goes on by itself. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { AwayStack } from '../support/away-stack.ts'
import type { Gate } from '../support/distributed-gate.ts'
import { eventually } from '../support/eventually.ts'
import { recordsOf } from '../support/log-reading.ts'
import { openRelayPlatform, type RelayPlatform } from '../support/relay-platform.ts'

/** Only ends a hang. */
const patienceMs = 90_000

export function describeRelayWithoutEngines(stack: AwayStack): void {
  describe('a webhook relay whose engines go away', () => {
    let postgres: Gate
    let registry: Gate
    let relay: RelayPlatform
    const targets = ['a', 'b'].map((name) => `  ${name}:\n    url: http://127.0.0.1:1/\n`).join('')

    beforeAll(async () => {
      const given = await stack.newEnvironment()
      ;({ postgres, registry } = given)
      const { QDRANT_URL: _, ...env } = given.env
      relay = await openRelayPlatform({ targets: `targets:\n${targets}`, env })
    })
    afterAll(() => relay?.close())

    const promised: string[] = []
    let fires = 0
    let tries = 0

    async function fire(query = '') {
      const taskId = `t${fires++}`
      const event = { event: 'task.completed', agent: 'W', task_id: taskId, result: null, ts: 1 }
      const answer = await relay.fire(event, query)
      if (answer.status === 202) {
        for (const { target } of answer.json.deliveries as { target: string }[])
          promised.push(`${target} ${taskId}`)
      }
      return answer
    }

    /** On a machine that has more to do the log may be late once. */
    const accepted = (query = '') =>
      eventually('202', async () => (await fire(query)).status === 202, patienceMs)

    test('Postgres and registry away: known targets go on, a new one waits for its partition', async () => {
      await accepted()
      postgres.cut()
      registry.cut()
      await accepted()
      // A target has a partition from its first try on.
      const late = `late${tries++}`
      relay.writeTargets(`targets:\n${targets}  ${late}:\n    url: http://127.0.0.1:1/\n`)
      const known = async () => {
        const answer = await fire(`?targets=${late}`)
        return answer.status === 400 ? null : answer
      }
      const refused = await eventually('the new target is known', known, patienceMs)
      expect([refused.status, refused.json.code]).toEqual([503, 'relational_engine_unavailable'])
      expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
      await accepted('?targets=a')
      await postgres.mend()
      await registry.mend()
      await accepted(`?targets=${late}`)
    }, 180_000)

    test('Kafka away: 503 and a health answer that says so; back: it goes on, and nothing accepted is lost', async () => {
      await stack.killKafka()
      const refused = await fire()
      expect([refused.status, refused.json.code]).toEqual([503, 'log_unavailable'])
      expect(refused.json.deliveries).toBeUndefined()
      const fails = async () => {
        const health = await relay.get('/health')
        return health.status === 200 && health.json.status === 'fail'
      }
      await eventually('health fails', fails, patienceMs)
      await stack.startKafka()
      await accepted()
      await eventually(
        'health passes',
        async () => (await relay.get('/health')).json.status !== 'fail',
        patienceMs,
      )
      const stored = (await recordsOf(relay.platform, webhooksDeliveries)).map(
        ({ key, value }) => `${key} ${value!.task_id}`,
      )
      expect(promised.filter((one) => !stored.includes(one))).toEqual([])
    }, 240_000)
  })
}
