/**
 * Encodes typed values as records and decodes them again: Avro, with schemas that the registry knows by id, in Confluent's
 * wire format: byte 0, the writer schema's id as int32 big-endian, the body.
 */

import { isUtf8 } from 'node:buffer'
import { fileURLToPath } from 'node:url'
import avro from 'avsc'
import type { StoredRecord } from '#engines/event-log/port.ts'
import type { SchemaRegistry } from '#engines/schema-registry/port.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { loadSchemas } from '#lib/schema-files.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import { boundsOfBytes, type CountCheck, countCheckOf } from './block-counts.ts'
import type { Codec, Message } from './messages.ts'

export const schemasDirectory = fileURLToPath(new URL('../../schemas/', import.meta.url))

/**
 * Writer schemas that are kept: more than the platform will ever have, and few enough that garbage ids fill no memory.
 */
const decodersMax = 500

interface OwnSchema {
  text: string
  type: avro.Type
  /** By the writer's id. */
  decoders: Loaded<number, OwnSchema, Decoder>
}

/** How records of one writer schema are read, or why they cannot be. */
type Decoder = ValueReader | { fault: string }

/**
 * Builds the codec of these Avro schema texts by name. Subjects (`<topic>-value`) are registered at a topic's first encode; both directions answer
 * synchronously once a topic (an id) is known, and with a promise before. While the registry is away, or does not know
 * an id (it may lag, or have been restored from an older copy), they throw AppError `registry_unavailable`, and ask it
 * again at the next call.
 *
 * Avro `bytes` are copies of the record's. Where a record begins with them they lie at a multiple of eight, elsewhere maybe at an
 * odd byteOffset, where no Float32Array can view them.
 * `long` is a plain number; beyond 2^53 it is refused.
 */
export function createCodec(
  registry: SchemaRegistry,
  schemas: ReadonlyMap<string, string> = loadSchemas(schemasDirectory),
): Codec {
  const own = createOwnSchemas(registry, schemas)
  const subjectIds = new Loaded((topic: string, text: string) => registry.register(`${topic}-value`, text))

  return {
    encode(topic, value, take) {
      const schema = own(topic.schema)
      const id = subjectIds.get(topic.name, schema.text)
      if (typeof id === 'number') return writeValue(schema.type, id, value, take)
      return id.then((loaded) => writeValue(schema.type, loaded, value, take))
    },
    decode(topic, record) {
      if (record.value === null) return messageOf<Schemas[typeof topic.schema]>(record, null)
      const id = schemaIdOf(record.value)
      const schema = own(topic.schema)
      const decoder = schema.decoders.get(id, schema)
      const decode = (known: Decoder) =>
        messageOf(record, decodeValue<Schemas[typeof topic.schema]>(known, record.value as Buffer))
      return decoder instanceof Promise ? decoder.then(decode) : decode(decoder)
    },
  }
}

function createOwnSchemas(
  registry: SchemaRegistry,
  texts: ReadonlyMap<string, string>,
): (name: SchemaName) => OwnSchema {
  const parsed = new Map<string, OwnSchema>()
  for (const [name, text] of texts) {
    const load = (id: number, reader: OwnSchema) => decoderOf(registry, reader, id)
    parsed.set(name, { text, type: parseAvro(text), decoders: new Loaded(load, decodersMax) })
  }
  return (name) => {
    const schema = parsed.get(name)
    if (!schema) throw new Error(`schemas/${name}.avsc does not exist`)
    return schema
  }
}

/**
 * Values that are loaded once, and given at once from then on; of more than `max` the oldest is dropped. One loading of a key
 * is in flight; one that fails is tried again at the next call.
 */
class Loaded<K, I, V> {
  readonly #load: (key: K, input: I) => Promise<V>
  readonly #max: number
  readonly #values = new Map<K, V>()
  readonly #loading = new Map<K, Promise<V>>()

  constructor(load: (key: K, input: I) => Promise<V>, max = Number.POSITIVE_INFINITY) {
    this.#load = load
    this.#max = max
  }

  get(key: K, input: I): V | Promise<V> {
    const value = this.#values.get(key) ?? this.#loading.get(key)
    if (value !== undefined) return value
    const loading = this.#keep(key, input)
    this.#loading.set(key, loading)
    return loading
  }

  async #keep(key: K, input: I): Promise<V> {
    try {
      const value = await this.#load(key, input)
      if (this.#values.size >= this.#max) this.#values.delete(this.#values.keys().next().value as K)
      this.#values.set(key, value)
      return value
    } finally {
      this.#loading.delete(key)
    }
  }
}

/** A schema that cannot be read becomes a decoder that says so; a registry without an answer throws. */
async function decoderOf(registry: SchemaRegistry, reader: OwnSchema, id: number): Promise<Decoder> {
  let writerText: string
  try {
    writerText = await registry.schemaById(id)
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'not_found') throw error
    const message = `The value cannot be decoded: its schema id ${id} is not in the registry.`
    throw new AppError('registry_unavailable', message, { cause: error })
  }
  try {
    return createValueReader(reader.type, parseAvro(writerText))
  } catch (error) {
    return { fault: `its schema (id ${id}) cannot be read as the current one: ${describeError(error, 200)}` }
  }
}

function decodeValue<V>(decoder: Decoder, value: Buffer): V {
  if ('fault' in decoder) throw new Error(`The value cannot be decoded: ${decoder.fault}`)
  return readValue(decoder, value) as V
}

function messageOf<V>(record: StoredRecord, value: V | null): Message<V> {
  if (record.key === null) throw new Error('The record has no key')
  if (!isUtf8(record.key)) throw new Error('The key is not UTF-8')
  return new RecordMessage(record, record.key, value)
}

/**
 * Its key (checked before: UTF-8) and headers become text when they are first read: many handlers never read them. Both
 * are getters of the class, which a spread of the message leaves out: name what you copy.
 */
class RecordMessage<V> implements Message<V> {
  readonly partition: number
  readonly offset: number
  readonly timestamp: number
  readonly value: V | null
  readonly #record: StoredRecord
  #key: Buffer | string

  constructor(record: StoredRecord, key: Buffer, value: V | null) {
    this.partition = record.partition
    this.offset = record.offset
    this.timestamp = record.timestamp
    this.value = value
    this.#record = record
    this.#key = key
  }

  get key(): string {
    if (typeof this.#key !== 'string') this.#key = this.#key.toString('utf8')
    return this.#key
  }

  get headers(): Record<string, string> {
    return this.#record.headers
  }
}

/** Reads the values that were written under one schema. */
interface ValueReader {
  /** The name of the bytes that a record begins with: the rest of it is read as `type`. */
  leading: string | undefined
  type: avro.Type
  /** Undefined where the writer's schema is the reader's own. */
  resolver: ReturnType<avro.Type['createResolver']> | undefined
  checkCounts: CountCheck | undefined
}

const headerBytes = 5
/** Values up to this size are encoded into one buffer that is used again. */
const slabBytes = 64 * 1024
const slab = Buffer.allocUnsafe(slabBytes)
/** Values from this size on have memory that can be given back; smaller ones are pieces of Node's pool. */
const largeBytesMin = 4_096

/** The Avro type of a schema text. Every reader and writer of the platform parses schemas with it. */
export function parseAvro(text: string): avro.Type {
  return avro.Type.forSchema(JSON.parse(text) as avro.Schema, { omitRecordMethods: true })
}

/** Throws an Error that names the field which does not fit the schema. */
export function writeValue(
  type: avro.Type,
  id: number,
  value: unknown,
  take: (bytes: number) => Buffer = Buffer.allocUnsafeSlow,
): Buffer {
  const end = type.encode(value, slab, headerBytes)
  if (end >= 0) {
    writeHeader(slab, id)
    const value = end < largeBytesMin ? Buffer.allocUnsafe(end) : take(end)
    slab.copy(value, 0, 0, end)
    return value
  }
  // The slab was too small; the negative end says by how many bytes.
  const exact = take(slab.length - end)
  type.encode(value, exact, headerBytes)
  writeHeader(exact, id)
  return exact
}

/** Throws an Error that says why the bytes are not in the wire format. */
function schemaIdOf(value: Buffer): number {
  if (value.length < headerBytes) {
    throw new Error(`The value has ${value.length} bytes: too short for the wire format`)
  }
  if (value[0] !== 0)
    throw new Error(`The value begins with byte ${value[0]}, not with 0: not the wire format`)
  return value.readInt32BE(1)
}

/** Throws an Error when values that `writer` wrote cannot be read as `reader`. */
function createValueReader(reader: avro.Type, writer: avro.Type): ValueReader {
  // Equal but for spacing, docs and defaults: the bytes are the same, and are read faster without a resolver.
  const resolver = reader.equals(writer) ? undefined : reader.createResolver(writer)
  const leading = leadingBytesOf(reader)
  if (leading === undefined || leading !== leadingBytesOf(writer)) {
    return { leading: undefined, type: reader, resolver, checkCounts: countCheckOf(writer) }
  }
  const [type, rest] = [withoutFirst(reader), withoutFirst(writer)]
  return {
    leading,
    type,
    resolver: resolver && type.createResolver(rest),
    checkCounts: countCheckOf(rest),
  }
}

/** The name of a record's first field, where that is bytes; undefined for a record that holds others of its own kind. */
function leadingBytesOf(type: avro.Type): string | undefined {
  if (!(type instanceof avro.types.RecordType)) return undefined
  const [first, ...others] = type.fields
  const inner = JSON.stringify(others.map((field) => field.type.schema()))
  return first?.type instanceof avro.types.BytesType && !inner.includes(JSON.stringify(type.name))
    ? first.name
    : undefined
}

function withoutFirst(record: avro.Type): avro.Type {
  const { fields, ...schema } = record.schema({ exportAttrs: true }) as avro.schema.RecordType
  return parseAvro(JSON.stringify({ ...schema, fields: fields.slice(1) }))
}

/** Throws an Error for bodies that are damaged, cut short or followed by further bytes. */
function readValue({ leading, type, resolver, checkCounts }: ValueReader, value: Buffer): unknown {
  const bytes = leading === undefined ? undefined : boundsOfBytes(value, headerBytes)
  const at = bytes?.end ?? headerBytes
  checkCounts?.(value, at)
  const { value: decoded, offset } = type.decode(value, at, resolver)
  if (offset < 0) throw new Error('The value cannot be decoded: it is cut short')
  if (offset !== value.length) {
    throw new Error(`The value cannot be decoded: ${value.length - offset} bytes follow its end`)
  }
  return bytes
    ? { [leading!]: copyOf(value.subarray(bytes.from, bytes.end)), ...(decoded as object) }
    : decoded
}

/** Copies lie in memory of this size, as many as fit: to make and clear one for each takes longer than to copy. */
const copiesBytes = 64 * 1024
const copyBytesMax = copiesBytes / 4
let copies = Buffer.alloc(0)

/** Begins at a multiple of eight. */
function copyOf(bytes: Buffer): Buffer {
  if (bytes.length > copyBytesMax) return Buffer.from(bytes)
  if (bytes.length > copies.length) copies = Buffer.allocUnsafeSlow(copiesBytes)
  const copy = copies.subarray(0, bytes.length)
  copies = copies.subarray(Math.ceil(bytes.length / 8) * 8)
  bytes.copy(copy)
  return copy
}

function writeHeader(buffer: Buffer, id: number): void {
  buffer[0] = 0
  buffer.writeInt32BE(id, 1)
}
