/** Answers to fetches, compared with kafkajs's own reader: the same records, and its way for all that is unusual. */

import { createRequire } from 'node:module'
import fc from 'fast-check'
import type { Broker, KafkaMessage } from 'kafkajs'
import { expect, test } from 'vitest'
import { decodeFetchResponse, quickenFetches } from '#engines/event-log/kafka/fetch-response.ts'
import { FetchedRecord, storedRecord } from '#engines/event-log/kafka/record.ts'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { recordParts } from '#test/support/record-parts.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'

interface Encoded {
  buffer: Buffer
}
interface Decoded {
  responses: { partitions: { partition: number; highWatermark: string; messages: KafkaMessage[] }[] }[]
}
interface WrittenRecord {
  offsetDelta: number
  timestampDelta: number
  key: Buffer | null
  value: Buffer | null
  headers?: Record<string, string | string[]>
}

const require = createRequire(import.meta.url)
const protocol = (name: string) => require(`kafkajs/src/protocol/${name}`)
const encodeRecord = protocol('recordBatch/record/v0') as (record: WrittenRecord) => Encoded
const { RecordBatch } = protocol('recordBatch/v0') as { RecordBatch(batch: object): Promise<Encoded> }
const theirs = protocol('requests/fetch/v11/response') as { decode(bytes: Buffer): Promise<Decoded> }

/** Where the record set's size is in `answer`. */
const sizeAt = 14 + 2 + 1 + 4 + 4 + 2 + 8 * 3 + 4 + 4

function batchOf(records: WrittenRecord[], options: object = {}): Promise<Encoded> {
  const firstTimestamp = 1_790_000_000_000
  const times = { firstTimestamp, maxTimestamp: firstTimestamp + 77 }
  return RecordBatch({ ...times, firstOffset: 2 ** 33, ...options, records: records.map(encodeRecord) })
}

/** The answer for partition 3 of topic `t`. */
function answer(...batches: Encoded[]): Buffer {
  const set = Buffer.concat(batches.map(({ buffer }) => buffer))
  const head = Buffer.alloc(sizeAt + 4)
  head.writeInt32BE(1, 10)
  head.writeInt16BE(1, 14)
  head.write('t', 16)
  head.writeInt32BE(1, 17)
  head.writeInt32BE(3, 21)
  head.writeBigInt64BE(9_007_199_254_740_993n, 27)
  head.writeInt32BE(-1, sizeAt - 4)
  head.writeInt32BE(set.length, sizeAt)
  return Buffer.concat([head, set])
}

const recordsOf = (decoded: Pick<Decoded, 'responses'>) =>
  decoded.responses.flatMap(({ partitions }) =>
    partitions.flatMap(({ partition, messages }) => messages.map((one) => storedRecord(partition, one))),
  )

async function expectSame(bytes: Buffer): Promise<StoredRecord[]> {
  // What kafkajs calls an answer has no type of its own.
  const ours = decodeFetchResponse(bytes) as unknown as Decoded
  const expected = recordsOf(await theirs.decode(bytes))
  const records = recordsOf(ours)
  expect(records.map(recordParts)).toEqual(expected.map(recordParts))
  return records
}

const text = (size = 300) => fc.uint8Array({ maxLength: size }).map((bytes) => Buffer.from(bytes))
const writtenRecords = fc.array(
  fc.record({
    timestampDelta: fc.oneof(fc.integer({ min: -200, max: 200 }), fc.integer()),
    gap: fc.integer({ min: 1, max: 300 }),
    key: fc.option(text(), { nil: null }),
    value: fc.option(text(9_000), { nil: null }),
    headers: fc.dictionary(
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 80 }),
      fc.oneof(fc.string({ maxLength: 90 }), fc.array(fc.string(), { minLength: 1, maxLength: 3 })),
      { noNullPrototype: true },
    ),
  }),
  { minLength: 1, maxLength: 12 },
)

function placed(records: { gap: number }[]): WrittenRecord[] {
  let offsetDelta = -1
  return records.map(({ gap, ...record }) => {
    offsetDelta += gap
    return { ...record, offsetDelta } as WrittenRecord
  })
}

test('any records are read as kafkajs reads them, with their holes, nulls and repeated headers', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(writtenRecords, { maxLength: 3 }), async (batches) => {
      const records = await expectSame(
        answer(...(await Promise.all(batches.map((batch) => batchOf(placed(batch)))))),
      )
      for (const record of records) {
        expect(record).toBeInstanceOf(FetchedRecord)
        for (const [name, value] of Object.entries(record.headers)) {
          // Names that are asked for are ASCII.
          if (/^[\x20-\x7e]+$/.test(name)) expect(record.headerBytes?.(name)?.toString()).toBe(value)
        }
        expect(record.headerBytes?.('never written')).toBeUndefined()
      }
    }),
    { numRuns: propertyRuns(200) },
  )
})

const one: WrittenRecord = {
  offsetDelta: 0,
  timestampDelta: 1,
  key: Buffer.from('k'),
  value: Buffer.from('v'),
  headers: { 'event-id': ['first', 'last'], agent: 'a' },
}

test('of a header that occurs several times the last one counts, in both readers', async () => {
  const bytes = answer(await batchOf([one]))
  const [ours] = await expectSame(bytes)
  const [kafkajs] = recordsOf(await theirs.decode(bytes))
  expect([ours, kafkajs].map((record) => String(record?.headerBytes?.('event-id')))).toEqual(['last', 'last'])
  expect(kafkajs).not.toBeInstanceOf(FetchedRecord)
  expect(kafkajs?.headerBytes?.('toString')).toBeUndefined()
})

test('where the broker sets the time, it counts for every record of a batch', async () => {
  const batch = await batchOf([one, { ...one, offsetDelta: 1, timestampDelta: 9 }])
  batch.buffer[22]! |= 8
  const records = await expectSame(answer(batch))
  expect(records.map(({ timestamp }) => timestamp)).toEqual([1_790_000_000_077, 1_790_000_000_077])
})

test('a last batch that is cut off anywhere waits for the next fetch', async () => {
  const [first, second] = [await batchOf([one]), await batchOf([one, { ...one, offsetDelta: 4 }])]
  for (let length = 0; length < second.buffer.length; length++) {
    const records = await expectSame(answer(first, { buffer: second.buffer.subarray(0, length) }))
    expect(records).toHaveLength(1)
  }
})

test('the numbers of the answer are exact beyond 2^53', async () => {
  const read = decodeFetchResponse(answer(await batchOf([one])))
  expect(read?.responses[0]?.partitions[0]?.highWatermark).toBe('9007199254740993')
})

test.each([
  ['compressed', 0x01],
  ['transactional', 0x10],
  ['control', 0x20],
])('a %s batch is left to kafkajs', async (_, attribute) => {
  const batch = await batchOf([one])
  batch.buffer[22]! |= attribute
  expect(decodeFetchResponse(answer(batch))).toBeNull()
})

test('old formats and aborted transactions are left to kafkajs', async () => {
  const old = await batchOf([one])
  old.buffer[16] = 1
  expect(decodeFetchResponse(answer(old))).toBeNull()
  const aborted = answer(await batchOf([one]))
  aborted.writeInt32BE(1, sizeAt - 8)
  expect(decodeFetchResponse(aborted)).toBeNull()
})

test('damaged answers are left to kafkajs, or read within their bounds; they never throw', async () => {
  const whole = answer(await batchOf([one, { ...one, offsetDelta: 1 }]))
  for (let length = 0; length < whole.length; length++) {
    expect(decodeFetchResponse(whole.subarray(0, length))).toBeNull()
  }
  fc.assert(
    fc.property(
      fc.nat(whole.length - 1),
      fc.nat(255),
      fc.nat(whole.length - 1),
      fc.nat(255),
      (a, b, c, d) => {
        const bytes = Buffer.from(whole)
        bytes[a] = b
        bytes[c] = d
        for (const record of recordsOf(
          (decodeFetchResponse(bytes) as unknown as Decoded) ?? { responses: [] },
        )) {
          record.headerBytes?.('event-id')
          expect(typeof record.headers).toBe('object')
        }
      },
    ),
    { numRuns: propertyRuns(3_000) },
  )
})

test('only fetches of the version that is known are read here; other calls of the broker stay as they were', async () => {
  const bytes = answer(await batchOf([one]))
  const asked: string[] = []
  class FakeBroker {
    lookupRequest(version: number) {
      const response = { decode: async () => 'theirs', parse: async (decoded: unknown) => decoded }
      return () => ({ request: { apiName: 'Fetch', apiVersion: version }, response })
    }
    async fetch(version: number) {
      const { response } = this.lookupRequest(version)()
      asked.push(`fetch ${version}`)
      return (response.decode as (bytes: Buffer) => Promise<unknown>)(bytes)
    }
  }
  // A broker of kafkajs has dozens of other calls, which this does not use.
  const broker = new FakeBroker()
  quickenFetches(broker as unknown as Broker)
  expect(await broker.fetch(10)).toBe('theirs')
  expect(recordsOf((await broker.fetch(11)) as unknown as Decoded)[0]).toBeInstanceOf(FetchedRecord)
  expect(await broker.lookupRequest(11)().response.decode()).toBe('theirs')
  expect(asked).toEqual(['fetch 10', 'fetch 11'])
})
