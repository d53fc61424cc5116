/** Encodes typed values as records and decodes them again: Avro, with schemas that the registry knows by id. */

import { isUtf8 } from 'node:buffer'
import { fileURLToPath } from 'node:url'
import type avro from 'avsc'
import type { SchemaRegistry } from '#engines/schema-registry/port.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { loadSchemas } from '#lib/schema-files.ts'
import type { Schemas } from '#schemas/types.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { Codec, Message, StoredRecord } from './messages.ts'
import {
  createValueReader,
  parseAvro,
  readValue,
  schemaIdOf,
  type ValueReader,
  writeValue,
} from './wire-format.ts'

export const schemasDirectory = fileURLToPath(new URL('../../schemas/', import.meta.url))

/**
 * Writer schemas that are kept: more than the platform will ever have, and few enough that garbage ids fill no memory.
 */
const decodersMax = 500

interface CodecOptions {
  /** Avro schema texts by name. Default: the files of schemas/. */
  schemas?: ReadonlyMap<string, string>
}

interface OwnSchema {
  text: string
  type: avro.Type
}

/** How records of one writer schema are read, or why they cannot be. */
type Decoder = ValueReader | { fault: string }

/**
 * Builds the codec. Subjects (`<topic>-value`) are registered at a topic's first encode; both directions answer
 * synchronously once a topic (an id) is known, and with a promise before. While the registry is away, or does not know
 * an id (it may lag, or have been restored from an older copy), they throw AppError `registry_unavailable`, and ask it
 * again at the next call.
 *
 * Avro `bytes` are copies of the record's, but may begin at an odd byteOffset, where no Float32Array can view them.
 * `long` is a plain number; beyond 2^53 it is refused.
 */
export function createCodec(registry: SchemaRegistry, options: CodecOptions = {}): Codec {
  const own = createOwnSchemas(options.schemas ?? loadSchemas(schemasDirectory))
  const subjectIds = createSubjectIds(registry)
  const decoders = createDecoders(registry)

  return {
    encode(topic, value) {
      const schema = own(topic.schema)
      const id = subjectIds.get(topic.name)
      if (id !== undefined) return writeValue(schema.type, id, value)
      return subjectIds.load(topic.name, schema.text).then((loaded) => writeValue(schema.type, loaded, value))
    },
    decode(topic, record) {
      if (record.value === null) return messageOf<Schemas[typeof topic.schema]>(record, null)
      const id = schemaIdOf(record.value)
      const schema = own(topic.schema)
      const decoder = decoders.get(topic.schema, id)
      if (decoder) return messageOf(record, decodeValue<Schemas[typeof topic.schema]>(decoder, record.value))
      return decoders.load(topic.schema, schema, id).then((loaded) => {
        return messageOf(record, decodeValue<Schemas[typeof topic.schema]>(loaded, record.value as Buffer))
      })
    },
  }
}

function createOwnSchemas(texts: ReadonlyMap<string, string>): (name: SchemaName) => OwnSchema {
  const parsed = new Map<string, OwnSchema>()
  for (const [name, text] of texts) parsed.set(name, { text, type: parseAvro(text) })
  return (name) => {
    const schema = parsed.get(name)
    if (!schema) throw new Error(`schemas/${name}.avsc does not exist`)
    return schema
  }
}

/** The schema id under which the values of each topic are written; one registration in flight for a topic. */
function createSubjectIds(registry: SchemaRegistry) {
  const ids = new Map<string, number>()
  const loading = new Map<string, Promise<number>>()
  async function register(topic: string, text: string): Promise<number> {
    try {
      const id = await registry.register(`${topic}-value`, text)
      ids.set(topic, id)
      return id
    } finally {
      loading.delete(topic)
    }
  }
  return {
    get: (topic: string) => ids.get(topic),
    load(topic: string, text: string): Promise<number> {
      const promise = loading.get(topic) ?? register(topic, text)
      loading.set(topic, promise)
      return promise
    },
  }
}

/** Decoders by schema and writer's id; bounded, the oldest is dropped first. */
function createDecoders(registry: SchemaRegistry) {
  const known = new Map<string, Map<number, Decoder>>()
  const loading = new Map<string, Promise<Decoder>>()
  async function load(name: string, schema: OwnSchema, id: number, slot: string): Promise<Decoder> {
    try {
      const decoder = await decoderOf(registry, schema, id)
      const ids = known.get(name) ?? new Map<number, Decoder>()
      known.set(name, ids)
      ids.delete(id)
      if (ids.size >= decodersMax) ids.delete(ids.keys().next().value as number)
      ids.set(id, decoder)
      return decoder
    } finally {
      loading.delete(slot)
    }
  }
  return {
    get: (name: string, id: number): Decoder | undefined => known.get(name)?.get(id),
    load(name: string, schema: OwnSchema, id: number): Promise<Decoder> {
      const slot = `${name}/${id}`
      const promise = loading.get(slot) ?? load(name, schema, id, slot)
      loading.set(slot, promise)
      return promise
    },
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
