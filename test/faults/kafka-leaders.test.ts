/** Reading while leaders change: from those that lead, and from nobody else. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { eventually } from '#test/support/eventually.ts'
import { openTestLog, quietMs } from '#test/support/kafka-log.ts'
import { openProxiedKafka, type ProxiedKafka } from '#test/support/kafka-proxy.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { openTail } from '../contract/event-log/world.ts'

/** Only ends a hang. */
const patienceMs = 90_000

let kafka: ProxiedKafka
let names = 0

beforeAll(async () => {
  kafka = await openProxiedKafka(3)
})

afterAll(() => kafka?.close())

test('a quiet reader leaves a broker that leads no more, although that one would answer', async () => {
  const { cluster } = kafka
  const log = await openTestLog(kafka.brokers, 'leaders')
  const topic = `leaders${names++}`
  await log.createTopic(topicSpec(topic))
  const facts = async () => (await log.partitionFacts(topic))[0]!
  const untilLed = (what: string, isSo: (node: number, inSync: number) => boolean) =>
    eventually(
      what,
      async () => {
        const { leader, inSync } = await facts()
        return leader !== null && isSo(nodeOf(leader), inSync)
      },
      patienceMs,
    )
  const append = (value: string) =>
    log.append(topic, 0, [{ key: null, value: Buffer.from(value) }], { timeoutMs: 60_000 })
  await append('first')
  const { tail, records } = await openTail(log, topic, 'beginning')
  await tail.ready

  const preferred = nodeOf((await facts()).leader!)
  await cluster.kill9(preferred)
  await untilLed('another one leads', (node) => node !== preferred)
  const other = nodeOf((await facts()).leader!)
  await cluster.start(preferred)
  await untilLed('all replicas are in sync', (_, inSync) => inSync === 3)
  await sleep(quietMs)
  const from = (node: number) => kafka.answers('fetch', node - 1)
  const before = from(other)
  await eventually('it reads quietly from who leads', () => from(other) > before, patienceMs)

  const election = ['--election-type', 'preferred', '--all-topic-partitions']
  await cluster.tool('LeaderElectionCommand', '--bootstrap-server', cluster.brokers[0]!, ...election)
  await untilLed('the preferred one leads', (node) => node === preferred)
  let [last, lastPreferred] = [-1, -1]
  await eventually(
    'it reads from the new leader alone',
    async () => {
      ;[last, lastPreferred] = [from(other), from(preferred)]
      await sleep(2 * quietMs)
      return from(other) === last && from(preferred) > lastPreferred
    },
    patienceMs,
  )
  await append('second')
  await eventually('it goes on', () => records.length === 2, patienceMs)
  expect(records.map(({ offset }) => offset)).toEqual([0, 1])
}, 400_000)

/** The id in `host:port (id)`. */
function nodeOf(leader: string): number {
  return Number(/\((\d+)\)$/.exec(leader)![1])
}
