/**
 * Leaders of a three-broker cluster are killed under load: nothing acknowledged is lost or stored twice, no key's order
 * is broken.
 */

import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { EventLog, StoredRecord } from '#engines/event-log/port.ts'
import { sleep } from '#lib/backoff.ts'
import { partitionOf } from '#lib/murmur2.ts'
import type { AwayStack } from '#test/support/away-stack.ts'
import { eventually } from '#test/support/eventually.ts'
import { leaderOf } from '#test/support/servers-cluster.ts'
import { topicSpec } from '#test/support/topic-spec.ts'

const partitions = 6
const keys = 60
/** Acknowledged between two kills, at least. */
const someRecords = 4_000
const outstandingMax = 400
/** Longer than a broker's session: its partitions get other leaders. */
const downMs = 4_000
/** Only ends a hang. */
const patienceMs = 90_000

interface Acknowledged {
  id: string
  partition: number
  offset: number
}

export function describeLogWithoutLeaders(stack: AwayStack): void {
  describe('the log when brokers are killed', () => {
    let log: EventLog
    let tries = 0
    beforeAll(async () => {
      log = await openKafkaLog({
        brokers: stack.servers.kafka.brokers,
        clientId: 'faults',
        log: pino({ level: process.env.LOG_LEVEL ?? 'silent' }),
      })
    })
    afterAll(() => log?.close())

    test('killed leaders: every acknowledged record is where it was said to be, and each key keeps its order', async () => {
      const topic = `kills${tries++}`
      await log.createTopic(topicSpec(topic, { partitions }))
      const acknowledged: Acknowledged[] = []
      const load = { on: true }
      onTestFinished(() => {
        load.on = false
      })
      const producing = produce(log, topic, acknowledged, load)
      for (const kill of [1, 2]) {
        const before = acknowledged.length
        await eventually(
          `kill ${kill} is under load`,
          () => acknowledged.length > before + someRecords,
          patienceMs,
        )
        const leader = await leaderOf(stack.servers.kafka.brokers, topic, 0)
        await stack.killKafka(leader)
        await sleep(downMs)
        await stack.startKafka(leader)
      }
      const before = acknowledged.length
      await eventually('it goes on', () => acknowledged.length > before + someRecords, patienceMs)
      load.on = false
      const total = await producing
      expect(acknowledged).toHaveLength(total)
      const stored = await readAll(log, topic)
      checkNothingLost(acknowledged, stored)
      checkOrder(stored)
      // A repeated batch has the id and sequence of its first try: its broker stores it once.
      expect(stored).toHaveLength(total)
    }, 240_000)

    test('a killed coordinator: its group goes on: nothing is missed or repeated, partitions are kept, commits work again', async () => {
      const topic = `coordinated${tries++}`
      const group = `${topic}-group`
      await log.createTopic(topicSpec(topic, { partitions }))
      const heard = new Map<number, number[]>()
      const [gained, lost]: [number[], number[]] = [[], []]
      const consumer = await log.consume({
        group,
        topic,
        listener: {
          async assigned(places) {
            gained.push(...places.map((place) => place.partition))
            return new Map(places.map((place) => [place.partition, place.committed?.offset ?? place.start]))
          },
          lost: (partitions) => void lost.push(...partitions),
          records(partition, records) {
            heard.set(partition, [...(heard.get(partition) ?? []), ...records.map((record) => record.offset)])
          },
          misplaced: (partition) => void lost.push(partition),
        },
      })
      const append = async (rounds: number) => {
        for (let n = 0; n < rounds; n++) {
          for (let partition = 0; partition < partitions; partition++) {
            await log.append(topic, partition, [{ key: null, value: Buffer.from('x') }], {
              timeoutMs: 60_000,
            })
          }
        }
      }
      onTestFinished(() => consumer.close())
      await append(10)
      const allHeard = (count: number) => () =>
        heard.size === partitions && [...heard.values()].every((offsets) => offsets.length >= count)
      await eventually('all records are read', allHeard(10), patienceMs)
      const node = await leaderOf(
        stack.servers.kafka.brokers,
        '__consumer_offsets',
        coordinatorPartition(group),
      )
      await stack.killKafka(node)
      await append(10)
      await eventually('the records of the meantime arrive', allHeard(20), patienceMs)
      await eventually('a commit', async () => (await consumer.commit(0, 20, '')) === 'committed', patienceMs)
      await stack.startKafka(node)
      await append(1)
      await eventually('the rest is read', allHeard(21), patienceMs)
      expect([gained.toSorted(), lost]).toEqual([[0, 1, 2, 3, 4, 5], []])
      for (const offsets of heard.values()) expect(offsets).toEqual(Array.from({ length: 21 }, (_, i) => i))
    }, 240_000)
  })
}

/** Kafka keeps a group in the partition that Java's hash of its name says (the test cluster has four). */
function coordinatorPartition(group: string): number {
  let hash = 0
  for (const char of group) hash = (Math.imul(31, hash) + char.charCodeAt(0)) | 0
  return Math.abs(hash) % 4
}

/** Keeps many appends outstanding; the next record of a key is appended without waiting for the one before. */
async function produce(
  log: EventLog,
  topic: string,
  acknowledged: Acknowledged[],
  load: { on: boolean },
): Promise<number> {
  const outstanding = new Set<Promise<void>>()
  let n = 0
  for (; load.on; n++) {
    const key = `key${n % keys}`
    const id = `${key}/${Math.floor(n / keys)}`
    const partition = partitionOf(Buffer.from(key), partitions)
    const append = log
      .append(topic, partition, [{ key: Buffer.from(key), value: Buffer.from(id) }], { timeoutMs: 90_000 })
      .then((offset) => {
        acknowledged.push({ id, partition, offset })
        outstanding.delete(append)
      })
    outstanding.add(append)
    if (outstanding.size >= outstandingMax) await Promise.race(outstanding)
  }
  await Promise.all(outstanding)
  return n
}

async function readAll(log: EventLog, topic: string): Promise<StoredRecord[]> {
  const records: StoredRecord[] = []
  const tail = await log.tail({
    topic,
    from: 'beginning',
    records: (_, heard) => void records.push(...heard),
  })
  await tail.ready
  await tail.close()
  return records
}

function checkNothingLost(acknowledged: Acknowledged[], stored: StoredRecord[]): void {
  const at = new Map(
    stored.map((record) => [`${record.partition}/${record.offset}`, record.value!.toString()]),
  )
  const wrong = acknowledged.filter(({ id, partition, offset }) => at.get(`${partition}/${offset}`) !== id)
  expect(wrong).toEqual([])
}

function checkOrder(stored: StoredRecord[]): void {
  const next = new Map<string, number>()
  const outOfOrder: string[] = []
  for (const { key, value } of stored) {
    const name = key!.toString()
    const number = Number(value!.toString().split('/')[1])
    const expected = next.get(name) ?? 0
    if (number === expected) next.set(name, number + 1)
    else if (number > expected) outOfOrder.push(`${value} came before ${name}/${expected}`)
  }
  expect(outOfOrder).toEqual([])
}
