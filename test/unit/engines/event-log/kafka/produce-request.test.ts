/** Produce requests, compared with kafkajs's own: the same bytes, and its way for all that is unusual. */

import { createRequire } from 'node:module'
import fc from 'fast-check'
import kafkajs, { type Broker, type Cluster, type Kafka } from 'kafkajs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Exchange } from '#engines/event-log/kafka/broker-calls.ts'
import { crc32c } from '#engines/event-log/kafka/crc32c.ts'
import {
  encodeProduce,
  type ProduceParts,
  quickenProducers,
} from '#engines/event-log/kafka/produce-request.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'

const require = createRequire(import.meta.url)
type RequestOf = (parts: ProduceParts) => { encode(): Promise<{ buffer: Buffer }> }
const theirs = [3, 7].map(
  (version) => require(`kafkajs/src/protocol/requests/produce/v${version}/request`) as RequestOf,
)
const nowMs = 1_790_000_000_123

beforeEach(() => {
  vi.spyOn(Date, 'now').mockReturnValue(nowMs)
})
afterEach(() => {
  vi.restoreAllMocks()
})

const bytes = (maxLength: number) =>
  fc.option(
    fc.uint8Array({ maxLength }).map((array) => Buffer.from(array)),
    { nil: null },
  )
const text = fc.oneof(fc.string({ maxLength: 90 }), fc.string({ unit: 'grapheme', maxLength: 60 }))
const message = fc.record(
  {
    key: bytes(200),
    value: bytes(9_000),
    headers: fc.dictionary(text, text, { noNullPrototype: true }),
  },
  { requiredKeys: ['key', 'value'] },
)
const parts = fc.record({
  acks: fc.constantFrom(-1, 1),
  timeout: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
  topicData: fc.array(
    fc.record({
      topic: fc.string({ minLength: 1, maxLength: 30 }),
      partitions: fc.array(
        fc.record({
          partition: fc.nat(9_999),
          messages: fc.array(message, { minLength: 1, maxLength: 70 }),
        }),
        { minLength: 1, maxLength: 3 },
      ),
    }),
    { minLength: 1, maxLength: 2 },
  ),
})

test('any records are written byte for byte as kafkajs writes them', async () => {
  await fc.assert(
    fc.asyncProperty(parts, async (some) => {
      const ours = encodeProduce(some, nowMs)
      for (const requestOf of theirs) {
        const { buffer } = await requestOf(some).encode()
        expect(ours.equals(buffer)).toBe(true)
      }
    }),
    { numRuns: propertyRuns(60) },
  )
})

test('the checksum is that of RFC 3720, whatever the length', () => {
  const rising = Uint8Array.from({ length: 32 }, (_, n) => n)
  expect(crc32c(rising, 0, 32)).toBe(0x46dd794e)
  expect(crc32c(new Uint8Array(32), 0, 32)).toBe(0x8a9136aa)
  expect(crc32c(Buffer.from('x123456789y'), 1, 10)).toBe(0xe3069283)
  expect(crc32c(rising, 5, 5)).toBe(0)
})

/** What a broker of a producer encodes for these parts, and how often kafkajs did it. */
async function encodedThrough(kafka: Kafka, some: object, apiVersion = 7) {
  let byKafkajs = 0
  const sent: unknown[] = []
  const exchange: Exchange = {
    request: {
      apiName: 'Produce',
      apiVersion,
      encode: async () => {
        byKafkajs++
        return 'theirs'
      },
    },
    response: { decode: async () => null, parse: async () => null },
  }
  const broker = {
    lookupRequest: () => () => exchange,
    async produce(this: { lookupRequest(): (parts: object) => Exchange }, request: object) {
      sent.push(await this.lookupRequest()(request).request.encode())
    },
  }
  const name = Object.getOwnPropertySymbols(kafka).find(({ description }) =>
    description?.endsWith('createCluster'),
  )!
  // As in the driver: private to kafkajs, so not in its types; the fakes have only what is called.
  const made = kafka as unknown as Record<symbol, (options?: object) => Cluster>
  const create = made[name]!
  const cluster = { findBroker: async () => broker as unknown as Broker }
  made[name] = () => cluster as unknown as Cluster
  quickenProducers(kafka)
  const found = await made[name]({}).findBroker({ nodeId: '1' })
  made[name] = create
  await (found as unknown as typeof broker).produce(some)
  return { byKafkajs, sent }
}

const newKafka = () => new kafkajs.Kafka({ brokers: ['localhost:1'], logLevel: kafkajs.logLevel.NOTHING })
const one = { key: Buffer.from('k'), value: Buffer.from('v'), headers: { name: 'text' } }
const usual = (changes: object = {}, changed: object = {}) => ({
  acks: -1,
  timeout: 1,
  compression: 0,
  producerId: -1,
  topicData: [{ topic: 't', partitions: [{ partition: 0, messages: [{ ...one, ...changed }] }] }],
  ...changes,
})

test('a producer writes its requests here, and kafkajs those that are unusual', async () => {
  const quick = await encodedThrough(newKafka(), usual())
  expect(quick.byKafkajs).toBe(0)
  expect(quick.sent).toEqual([{ buf: expect.any(Buffer), buffer: expect.any(Buffer) }])
  for (const unusual of [
    usual({ compression: 1 }),
    usual({ transactionalId: 'x' }),
    usual({ producerId: 7 }),
    usual({}, { timestamp: '1' }),
    usual({}, { headers: { name: ['a', 'b'] } }),
    usual({}, { value: 'text' }),
  ]) {
    expect((await encodedThrough(newKafka(), unusual)).byKafkajs).toBe(1)
  }
  expect((await encodedThrough(newKafka(), usual(), 8)).byKafkajs).toBe(1)
})

test('this kafkajs makes its clusters where they are looked for', () => {
  const named = Object.getOwnPropertySymbols(newKafka()).map(({ description }) => description)
  expect(named).toContain('private:Kafka:createCluster')
})
