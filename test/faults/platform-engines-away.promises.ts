/** Real engines go away under a running platform, one after the other, and come back: what it accepted is applied. */

import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import type { AwayStack } from '../support/away-stack.ts'
import type { Gate } from '../support/distributed-gate.ts'
import {
  createProcesses,
  type Processes,
  type ServiceProcess,
  untilReady,
  withAddress,
} from '../support/distributed-process.ts'
import { checkWriters, startWriter, type Writer, waitUntilApplied } from '../support/distributed-writer.ts'
import { eventually } from '../support/eventually.ts'
import { type BareCall, call } from '../support/gateway-call.ts'
import { axisVector } from '../support/points.ts'

/** Only ends a hang. */
const patienceMs = 90_000

export function describePlatformWithoutEngines(stack: AwayStack): void {
  describe('a platform whose engines go away', () => {
    let postgres: Gate
    let registry: Gate
    let processes: Processes
    let platform: ServiceProcess
    let client: Client
    let vectorUrl: string
    let writers: Writer[]

    beforeAll(async () => {
      const given = await stack.newEnvironment()
      ;({ postgres, registry } = given)
      processes = createProcesses(given.env)
      platform = await processes.start([])
      const args = ['agents', 'provision', '--agent-id', 'whale', '--tier', 'infra-architect']
      const { private_key_file } = await processes.run<{ private_key_file: string }>(args, platform.home)
      vectorUrl = platform.vectorUrl
      client = createClient({ agentId: 'whale', privateKeyFile: private_key_file, vectorUrl })
      const exact = stack.servers.qdrant === null
      writers = ['w1', 'w2'].map((name) =>
        startWriter({ client, name, collection: 'posts', wait: false, exact, pauseMs: 10 }),
      )
    })

    afterEach(async (context) => {
      if (context.task.result?.state === 'fail') console.error(platform.output().slice(-6_000))
    })

    afterAll(async () => {
      await Promise.all((writers ?? []).map((writer) => writer.stop().catch(() => {})))
      await processes?.close()
    })

    const acknowledged = () => writers.reduce((sum, writer) => sum + writer.acknowledged(), 0)

    async function goesOn(): Promise<void> {
      const before = acknowledged()
      await eventually('writing goes on', () => acknowledged() > before + 20, patienceMs)
    }

    async function send(path: string, given: BareCall = {}) {
      return call(vectorUrl, path, { key: await client.apiKey(), ...given })
    }
    const vector = axisVector(3)
    const upsert = (query = '') =>
      send(`/v1/vectors/upsert${query}`, {
        body: { collection: 'knowledgebase', points: [{ id: 'a', vector }] },
      })
    const search = () => send('/v1/vectors/search', { body: { collection: 'knowledgebase', vector } })
    const handshake = () =>
      send('/v1/auth/handshake', { body: { agent_id: 'whale', nonce: 'ab'.repeat(16) } })
    const untilApplied = () =>
      eventually('an upsert is applied', async () => (await upsert('?wait=true')).status === 200, patienceMs)
    const untilFound = () =>
      eventually('a search is answered', async () => (await search()).status === 200, patienceMs)
    const deadLetters = async () =>
      (await processes.run<{ dead_letters: unknown[] }>(['dead-letters', 'list'], platform.home)).dead_letters

    test('Postgres is away: held keys go on, handshakes are asked to come again', async () => {
      await goesOn()
      postgres.cut()
      // A held key counts while the gateway receives changes of agents; on a busy machine it loses them for a moment.
      for (let n = 0; n < 5; n++) {
        await untilFound()
        await eventually('an upsert is accepted', async () => (await upsert()).status === 202, patienceMs)
      }
      await untilApplied()
      const refused = await handshake()
      expect([refused.status, refused.json.code]).toEqual([503, 'relational_engine_unavailable'])
      expect(refused.json.retryAfter).toBeGreaterThan(0)
      await postgres.mend()
      await eventually('handshakes are answered', async () => (await handshake()).status === 200, patienceMs)
      await goesOn()
    }, 240_000)

    test('the registry is away: cached schemas are enough', async () => {
      registry.cut()
      await untilApplied()
      await untilFound()
      await registry.mend()
    }, 240_000)

    test('Kafka is killed: writes and audited reads are refused at once, and all goes on when it is back', async () => {
      await goesOn()
      await stack.killKafka()
      for (const refused of [await upsert(), await search(), await upsert('?wait=true')]) {
        expect([refused.status, refused.json.code]).toEqual([503, 'log_unavailable'])
        expect(refused.json.retryAfter).toBeGreaterThan(0)
        expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
      }
      const sick = async () => (await client.health()).components.event_log.status === 'fail'
      await eventually('health reports it', sick, patienceMs)
      await stack.startKafka()
      await goesOn()
      await untilApplied()
      await eventually('health is well', async () => (await client.health()).status === 'pass', patienceMs)
    }, 240_000)

    test('Qdrant is killed: writes are accepted, reads are asked to come again, nothing is parked', async ({
      skip,
    }) => {
      if (!stack.servers.qdrant) return skip('no qdrant executable')
      await stack.killQdrant()
      const accepted: string[] = []
      for (let n = 0; n < 20; n++) {
        const answer = await upsert()
        expect(answer.status).toBe(202)
        accepted.push(answer.json.operation_id as string)
      }
      const reads = [
        search(),
        send('/v1/vectors/count?collection=posts'),
        send('/v1/vectors/get?collection=posts&id=a'),
      ]
      for (const refused of await Promise.all(reads)) {
        expect([refused.status, refused.json.code]).toEqual([503, 'vector_engine_unavailable'])
        expect(refused.json.retryAfter).toBeGreaterThan(0)
      }
      await goesOn()
      expect(await client.operation(accepted[0] as string)).toMatchObject({ status: 'accepted' })
      await stack.startQdrant()
      for (const id of accepted) {
        expect((await client.waitFor(id, { timeoutMs: patienceMs })).status).toBe('applied')
      }
      await untilFound()
      expect(await deadLetters()).toEqual([])
    }, 180_000)

    test('after all of it every accepted operation is applied, and every point is as it was last written', async () => {
      await Promise.all(writers.map((writer) => writer.stop()))
      const operations = writers.reduce((sum, writer) => sum + writer.accepted.length, 0)
      expect(operations).toBe(acknowledged())
      await waitUntilApplied(client, writers)
      const { faults, present } = await checkWriters(client, 'posts', writers)
      expect(faults).toEqual([])
      expect(await client.count('posts')).toBe(present)
      expect(await deadLetters()).toEqual([])
      console.error(`${acknowledged()} operations accepted, ${present} points`)
    }, 180_000)

    test('a platform that is started while its engines are away becomes ready when they come', async () => {
      const { home } = platform
      platform.child.kill('SIGTERM')
      expect(await platform.finished).toBe(0)
      await stack.killKafka()
      postgres.cut()
      registry.cut()
      const waiting = processes.spawn([], { home })
      onTestFinished(async () => {
        waiting.child.kill('SIGKILL')
        await waiting.finished
      })
      await eventually('it waits', () => /waiting/.test(waiting.output()), patienceMs)
      await postgres.mend()
      await registry.mend()
      await stack.startKafka()
      await untilReady(waiting)
      vectorUrl = withAddress(waiting).vectorUrl
      await untilApplied()
      waiting.child.kill('SIGTERM')
      expect(await waiting.finished).toBe(0)
    }, 240_000)
  })
}
