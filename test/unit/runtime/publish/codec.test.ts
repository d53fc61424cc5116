/**
 * Values in the wire format: round trips, older and newer schemas, which values are
 * refused.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { agentsChanges, auditEvents, vectorsCommands, vectorsProgress } from '#topics/catalog.ts'
import type { SchemaName } from '#topics/topic.ts'
import { createMemoryRegistry } from '../../../support/memory-registry.ts'
import { propertyRuns } from '../../../support/property-runs.ts'

const progress = {
  index: 'vectors',
  generation: 1,
  partition: 3,
  epoch: 1,
  applied_through: 2 ** 40,
  failures: 0,
}

function stored(value: Buffer | null, key: Buffer | null = Buffer.from('key')): StoredRecord {
  return { partition: 1, offset: 7, timestamp: 1_700_000_000_000, key, value, headers: { agent: 'a' } }
}

/** A topic of any name with the schema of vectors.progress. */
const topicWith = (name: string, schema: SchemaName) => ({ ...vectorsProgress, name, schema })

test('a value comes back as it was, with the position, key and headers of its record', async () => {
  const codec = createCodec(createMemoryRegistry())
  const bytes = await codec.encode(vectorsProgress, progress)
  const message = await codec.decode(vectorsProgress, stored(bytes))
  const { partition, offset, timestamp, key, value, headers } = message
  expect({ partition, offset, timestamp, key, value, headers }).toEqual({
    partition: 1,
    offset: 7,
    timestamp: 1_700_000_000_000,
    key: 'key',
    value: progress,
    headers: { agent: 'a' },
  })
})

test('bytes begin with 0 and the schema id as int32 big-endian', async () => {
  const registry = createMemoryRegistry()
  const codec = createCodec(registry)
  await codec.encode(auditEvents, {
    event_id: 'e',
    phase: 'begun',
    agent_id: 'a',
    operation: 'search',
    collection: null,
    outcome: 'unknown',
    status_code: null,
    took_ms: null,
    request_id: 'r',
    count: 1,
    occurred_at: 1,
  })
  const bytes = await codec.encode(vectorsProgress, progress)
  expect([...bytes.subarray(0, 5)]).toEqual([0, 0, 0, 0, 2])
})

test('once a topic and an id are known, nothing waits and the registry is not asked again', async () => {
  const registry = createMemoryRegistry()
  const codec = createCodec(registry)
  const cold = codec.encode(vectorsProgress, progress)
  expect(cold).toBeInstanceOf(Promise)
  await codec.decode(vectorsProgress, stored(await cold))
  const calls = registry.calls.length
  const warm = codec.encode(vectorsProgress, progress)
  expect(Buffer.isBuffer(warm)).toBe(true)
  const message = codec.decode(vectorsProgress, stored(warm as Buffer)) as Message<unknown>
  expect(message.value).toEqual(progress)
  expect(registry.calls).toHaveLength(calls)
})

test('many first encodes at once register a subject once, under the name <topic>-value', async () => {
  const registry = createMemoryRegistry()
  const codec = createCodec(registry)
  await Promise.all(Array.from({ length: 50 }, () => codec.encode(vectorsProgress, progress)))
  expect(registry.calls).toEqual(['register vectors.progress-value'])
})

test('a null value stays null and never reaches the registry', () => {
  const registry = createMemoryRegistry()
  registry.away = true
  const message = createCodec(registry).decode(vectorsCommands, stored(null)) as Message<VectorUpsert>
  expect(message.value).toBeNull()
  expect(registry.calls).toEqual([])
})

test('with the registry away both directions say so, and work as soon as it is back', async () => {
  const registry = createMemoryRegistry()
  const bytes = await createCodec(registry).encode(vectorsProgress, progress)
  const codec = createCodec(registry)
  registry.away = true
  await expect(codec.encode(vectorsProgress, progress)).rejects.toMatchObject({
    code: 'registry_unavailable',
  })
  await expect(codec.decode(vectorsProgress, stored(bytes))).rejects.toMatchObject({
    code: 'registry_unavailable',
  })
  registry.away = false
  expect(await codec.encode(vectorsProgress, progress)).toEqual(bytes)
  expect((await codec.decode(vectorsProgress, stored(bytes))).value).toEqual(progress)
})

const point = (vector: Buffer) => ({
  vector,
  payload: '{"é":1}',
  embedder: 'lexical',
  making: null,
  expires_at: 1_700_000_000_000,
})

test('a vector of any size survives as a copy that a Float32Array can view', async () => {
  const codec = createCodec(createMemoryRegistry())
  const read: { vector: Buffer; wanted: Buffer }[] = []
  for (const size of [0, 1, 3, 1536, 4_096, 4_097, 100_000, 1536, 1]) {
    const vector = Float32Array.from({ length: size }, (_, n) => Math.fround(n / 7))
    const value = point(Buffer.from(vector.buffer))
    const bytes = await codec.encode(vectorsCommands, value)
    const decoded = (await codec.decode(vectorsCommands, stored(bytes))).value as VectorUpsert
    expect(decoded).toEqual(value)
    expect(Object.keys(decoded)).toEqual(Object.keys(value))
    // The record's memory may be given to others.
    bytes.fill(0xff)
    read.push({ vector: decoded.vector, wanted: value.vector })
  }
  for (const { vector, wanted } of read) {
    expect(vector.equals(wanted)).toBe(true)
    expect(new Float32Array(vector.buffer, vector.byteOffset, vector.length / 4)).toHaveLength(
      wanted.length / 4,
    )
  }
})

test('a record that begins with bytes is read by an older and a newer schema, and never beyond its end', async () => {
  const registry = createMemoryRegistry()
  const schemaOf = (...fields: object[]) =>
    new Map([['vector-upsert', JSON.stringify({ type: 'record', name: 'VectorUpsert', fields })]])
  const data = { name: 'data', type: 'bytes' }
  const label = { name: 'label', type: 'string', default: 'none' }
  const next = { name: 'next', type: ['null', 'VectorUpsert'], default: null }
  const short = createCodec(registry, schemaOf(data))
  const labelled = createCodec(registry, schemaOf(data, label))
  const behind = createCodec(registry, schemaOf(label, data))
  const linked = createCodec(registry, schemaOf(data, next))
  const topic = topicWith('t', 'vector-upsert')
  const bytesOf = async (codec: typeof short, value: object) =>
    stored(await codec.encode(topic, value as never))
  const readAs = async (codec: typeof short, record: StoredRecord) =>
    (await codec.decode(topic, record)).value
  const eight = Buffer.from('12345678')
  const whole = await bytesOf(labelled, { data: eight, label: 'x' })
  expect(await readAs(labelled, whole)).toEqual({ data: eight, label: 'x' })
  expect(await readAs(short, whole)).toEqual({ data: eight })
  expect(await readAs(behind, whole)).toEqual({ data: eight, label: 'x' })
  expect(await readAs(labelled, await bytesOf(short, { data: eight }))).toEqual({
    data: eight,
    label: 'none',
  })
  expect(await readAs(labelled, await bytesOf(behind, { data: eight, label: 'y' }))).toEqual({
    data: eight,
    label: 'y',
  })
  const inner = { data: Buffer.from('in'), next: null }
  const chain = { data: eight, next: inner }
  expect(await readAs(linked, await bytesOf(linked, chain))).toEqual(chain)
  for (let length = 5; length < whole.value!.length; length++) {
    await expect(readAs(labelled, stored(whole.value!.subarray(0, length)))).rejects.toThrow('cut short')
  }
  const lies = [
    [0x01],
    [0xff, 0xff, 0xff, 0xff, 0x0f],
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    [],
  ]
  for (const length of lies) {
    const lying = Buffer.concat([whole.value!.subarray(0, 5), Buffer.from(length), eight])
    await expect(readAs(labelled, stored(lying))).rejects.toThrow('The value cannot be decoded: ')
  }
})

test('encoded buffers are independent of each other', async () => {
  const codec = createCodec(createMemoryRegistry())
  const first = await codec.encode(vectorsProgress, progress)
  const before = Buffer.from(first)
  await codec.encode(vectorsProgress, { ...progress, index: 'another' })
  expect(first.equals(before)).toBe(true)
})

test('records of an older schema are read with the defaults of the new one', async () => {
  const registry = createMemoryRegistry()
  const older = JSON.stringify({
    type: 'record',
    name: 'VectorsProgress',
    namespace: 'flotilla.vectors',
    fields: [{ name: 'index', type: 'string' }],
  })
  const newer = JSON.stringify({
    type: 'record',
    name: 'VectorsProgress',
    namespace: 'flotilla.vectors',
    fields: [
      { name: 'failures', type: 'long', default: 9 },
      { name: 'index', type: 'string' },
    ],
  })
  const topic = topicWith('t', 'vectors-progress')
  const writer = createCodec(registry, new Map([['vectors-progress', older]]))
  const reader = createCodec(registry, new Map([['vectors-progress', newer]]))
  const bytes = await writer.encode(topic, { index: 'i' } as never)
  expect((await reader.decode(topic, stored(bytes))).value).toEqual({ index: 'i', failures: 9 })
})

test('a symbol that a newer writer added is read as the default', async () => {
  const registry = createMemoryRegistry()
  const kind = (...symbols: string[]) =>
    JSON.stringify({
      type: 'record',
      name: 'R',
      fields: [{ name: 'kind', type: { type: 'enum', name: 'Kind', symbols, default: 'unknown' } }],
    })
  const topic = topicWith('t', 'vectors-progress')
  const newer = createCodec(registry, new Map([['vectors-progress', kind('unknown', 'a', 'b')]]))
  const older = createCodec(registry, new Map([['vectors-progress', kind('unknown', 'a')]]))
  const bytes = await newer.encode(topic, { kind: 'b' } as never)
  expect((await older.decode(topic, stored(bytes))).value).toEqual({ kind: 'unknown' })
})

test.each([
  ['too short', Buffer.from([0, 0, 0]), /too short/],
  ['another magic byte', Buffer.from([1, 0, 0, 0, 1, 0]), /begins with byte 1/],
  ['an unknown schema id', Buffer.from([0, 0, 0, 9, 9, 0]), /schema id 2313 is not in the registry/],
  ['JSON text', Buffer.from('{"index":"vectors"}'), /begins with byte 123/],
])('%s is refused with the reason', async (_, bytes, reason) => {
  const codec = createCodec(createMemoryRegistry())
  await codec.encode(vectorsProgress, progress)
  await expect(async () => codec.decode(vectorsProgress, stored(bytes))).rejects.toThrow(reason)
})

test('a body that is cut short or longer than its value is refused', async () => {
  const codec = createCodec(createMemoryRegistry())
  const bytes = await codec.encode(vectorsProgress, progress)
  const decode = async (value: Buffer) => codec.decode(vectorsProgress, stored(value))
  await expect(decode(bytes.subarray(0, -1))).rejects.toThrow(/cut short/)
  await expect(decode(Buffer.concat([bytes, Buffer.from([1, 2])]))).rejects.toThrow(/2 bytes follow/)
})

test('records written under a schema that cannot be read as the topic’s are refused', async () => {
  const registry = createMemoryRegistry()
  const codec = createCodec(registry)
  const bytes = await codec.encode(vectorsProgress, progress)
  await expect(async () => codec.decode(agentsChanges, stored(bytes))).rejects.toThrow(
    /cannot be read as the current one/,
  )
  // The verdict is kept: the second record is refused at once.
  expect(() => codec.decode(agentsChanges, stored(bytes))).toThrow(/cannot be read/)
})

test('any bytes behind a valid header are a value or an Error, quickly', async () => {
  const codec = createCodec(createMemoryRegistry())
  const deadLetters = topicWith('x.dead-letters', 'dead-letter')
  const good = await codec.encode(deadLetters, {
    topic: 't',
    partition: 0,
    offset: 0,
    consumer_group: 'g',
    key: null,
    value: Buffer.from('v'),
    headers: { a: 'b' },
    reason: 'r',
    attempts: 1,
    parked_at: 1,
  } as never)
  await codec.decode(deadLetters, stored(good))
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (body) => {
      try {
        codec.decode(deadLetters, stored(Buffer.concat([good.subarray(0, 5), body])))
      } catch (error) {
        expect(error).toBeInstanceOf(Error)
      }
    }),
    { numRuns: propertyRuns(2_000) },
  )
})

test('a count beyond the end of the bytes is refused at once, in maps and in arrays', async () => {
  const registry = createMemoryRegistry()
  const topic = topicWith('t', 'vectors-progress')
  for (const type of ['{ "type": "map", "values": "string" }', '{ "type": "array", "items": "string" }']) {
    const schema = `{ "type": "record", "name": "R", "fields": [{ "name": "f", "type": ${type} }] }`
    const codec = createCodec(registry, new Map([['vectors-progress', schema]]))
    const good = await codec.encode(topic, { f: type.includes('map') ? { a: 'b' } : ['a', 'b'] } as never)
    const message = await codec.decode(topic, stored(good))
    expect(message.value).toEqual({ f: type.includes('map') ? { a: 'b' } : ['a', 'b'] })
    const hostile = Buffer.concat([good.subarray(0, 5), Buffer.from([0x80, 0x80, 0x80, 0x80, 0x80, 0x40])])
    expect(() => codec.decode(topic, stored(hostile))).toThrow(/more entries than/)
  }
})

test('counts are checked by the schema that wrote them, also in a field that readers leave out', async () => {
  const registry = createMemoryRegistry()
  const record = (...fields: object[]) => JSON.stringify({ type: 'record', name: 'R', fields })
  const name = { name: 'name', type: 'string' }
  const list = { name: 'list', type: { type: 'array', items: 'string' } }
  const topic = topicWith('t', 'vectors-progress')
  const writer = createCodec(registry, new Map([['vectors-progress', record(list, name)]]))
  const reader = createCodec(registry, new Map([['vectors-progress', record(name)]]))
  const good = await writer.encode(topic, { list: ['a'], name: 'n' } as never)
  expect((await reader.decode(topic, stored(good))).value).toEqual({ name: 'n' })
  const header = good.subarray(0, 5)
  const hostile = Buffer.concat([header, Buffer.from([0x80, 0x80, 0x80, 0x80, 0x80, 0x40])])
  expect(() => reader.decode(topic, stored(hostile))).toThrow(/more entries than/)
  // A block that claims to end before it began would be skipped backwards, again and again.
  const backwards = Buffer.concat([header, Buffer.from([1, 3, 0, 2, 110])])
  expect(() => reader.decode(topic, stored(backwards))).toThrow(/another size/)
})

test('a value that does not fit its schema is refused before anything is sent', async () => {
  const codec = createCodec(createMemoryRegistry())
  await codec.encode(vectorsProgress, progress)
  expect(() => codec.encode(vectorsProgress, { ...progress, index: 5 } as never)).toThrow(/5/)
  expect(() => codec.encode(vectorsProgress, { ...progress, failures: 2 ** 60 })).toThrow()
})

test('a record without a key, or with one that is not UTF-8, is refused', async () => {
  const codec = createCodec(createMemoryRegistry())
  const bytes = await codec.encode(vectorsProgress, progress)
  await codec.decode(vectorsProgress, stored(bytes))
  expect(() => codec.decode(vectorsProgress, stored(bytes, null))).toThrow(/no key/)
  expect(() => codec.decode(vectorsProgress, stored(bytes, Buffer.from([0xff])))).toThrow(/not UTF-8/)
})
