/**
 * Writes the bytes of a produce request. kafkajs makes and clears a buffer for each record and each header, which
 * takes longer than all other work of writing; here they are written into one. What the log never sends
 * (compression, transactions, times of their own, headers that are not texts) is left to kafkajs.
 *
 * Formats: Kafka protocol guide, Produce request versions 3 to 7 and record batch magic 2.
 */

import type { Broker, Cluster, Kafka, Message } from 'kafkajs'
import { changeExchanges, type Exchange } from './broker-calls.ts'
import { crc32c } from './crc32c.ts'

const versionMin = 3
const versionMax = 7
/** Of a record batch: what comes before its records; what its length, and its checksum, do not count. */
const batchHeadBytes = 61
const uncountedBytes = 12
const uncheckedBytes = 21
const magic = 2

export interface ProduceParts {
  acks: number
  timeout: number
  compression?: number
  transactionalId?: string | null
  producerId?: unknown
  topicData: { topic: string; partitions: { partition: number; messages: Message[] }[] }[]
}

/** From now on the producers of this client write their requests here, wherever possible. */
export function quickenProducers(kafka: Kafka): void {
  // The types of kafkajs describe its public interface, and this is not in it.
  const made = kafka as unknown as Record<symbol, (options: unknown) => Cluster>
  const name = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  )
  const createCluster = name && made[name]
  // A kafkajs that has it elsewhere sends as it always did.
  if (!createCluster) return
  made[name] = (options) => {
    const cluster = createCluster(options)
    const findBroker = cluster.findBroker.bind(cluster)
    const quick = new WeakSet<Broker>()
    cluster.findBroker = async (node) => {
      const broker = await findBroker(node)
      if (!quick.has(broker)) changeExchanges(broker, 'produce', quickened)
      quick.add(broker)
      return broker
    }
    return cluster
  }
}

function quickened(exchange: Exchange, parts: ProduceParts): Exchange {
  const { request } = exchange
  const known =
    request.apiName === 'Produce' && request.apiVersion >= versionMin && request.apiVersion <= versionMax
  if (!known || !isUsual(parts)) return exchange
  const encode = async () => {
    const bytes = encodeProduce(parts, Date.now())
    // What kafkajs looks at in an encoder.
    return { buf: bytes, buffer: bytes }
  }
  return { ...exchange, request: { ...request, encode } }
}

function isUsual({ compression, transactionalId, producerId, topicData }: ProduceParts): boolean {
  if (compression || transactionalId || (producerId !== undefined && Number(producerId) !== -1)) return false
  return topicData.every(({ partitions }) => partitions.every(({ messages }) => messages.every(isPlain)))
}

function isPlain({ key, value, headers, timestamp }: Message): boolean {
  if (timestamp !== undefined || !isBytes(key) || !isBytes(value)) return false
  for (const name in headers) if (typeof headers[name] !== 'string') return false
  return true
}

function isBytes(part: Buffer | string | null | undefined): part is Buffer | null {
  return part === null || Buffer.isBuffer(part)
}

/** The request's bytes behind its head. */
export function encodeProduce({ acks, timeout, topicData }: ProduceParts, nowMs: number): Buffer {
  let size = 2 + 2 + 4 + 4
  const sizes: number[] = []
  for (const { topic, partitions } of topicData) {
    size += 2 + Buffer.byteLength(topic) + 4
    for (const { messages } of partitions) {
      size += 4 + 4 + batchHeadBytes
      for (let n = 0; n < messages.length; n++) {
        const own = recordBytes(messages[n]!, n)
        sizes.push(own)
        size += varintBytes(own) + own
      }
    }
  }
  const writer = new Writer(Buffer.allocUnsafe(size))
  writer.int16(-1)
  writer.int16(acks)
  writer.int32(timeout)
  writer.int32(topicData.length)
  let next = 0
  for (const { topic, partitions } of topicData) {
    writer.int16(Buffer.byteLength(topic))
    writer.text(topic, Buffer.byteLength(topic))
    writer.int32(partitions.length)
    for (const { partition, messages } of partitions) {
      writer.int32(partition)
      writer.batch(messages, sizes.slice(next, next + messages.length), nowMs)
      next += messages.length
    }
  }
  return writer.bytes
}

/** Of a record, behind its length. */
function recordBytes({ key, value, headers }: Message, offsetDelta: number): number {
  let count = 0
  let size = 2 + varintBytes(offsetDelta) + partBytes(key) + partBytes(value)
  for (const name in headers) {
    count++
    for (const text of [name, headers[name] as string]) {
      const length = Buffer.byteLength(text)
      size += varintBytes(length) + length
    }
  }
  return size + varintBytes(count)
}

function partBytes(part: Message['value'] | undefined): number {
  return part ? varintBytes(part.length) + part.length : 1
}

/** Of a number that is not negative, as a zigzag varint. */
function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value * 2; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}

class Writer {
  readonly bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  int16(value: number): void {
    this.#at = this.bytes.writeInt16BE(value, this.#at)
  }

  int32(value: number): void {
    this.#at = this.bytes.writeInt32BE(value, this.#at)
  }

  int64(value: bigint): void {
    this.#at = this.bytes.writeBigInt64BE(value, this.#at)
  }

  text(text: string, length: number): void {
    if (length === text.length) this.bytes.write(text, this.#at, length, 'latin1')
    else this.bytes.write(text, this.#at, length, 'utf8')
    this.#at += length
  }

  /** The size of a record set of one batch, and the batch; `sizes` are those of its records. */
  batch(messages: Message[], sizes: number[], nowMs: number): void {
    const sizeAt = this.#at
    const from = sizeAt + 4
    const time = BigInt(nowMs)
    this.#at = from + uncheckedBytes
    this.int16(0)
    this.int32(messages.length - 1)
    this.int64(time)
    this.int64(time)
    // No producer id: the queues above know what was written.
    this.int64(-1n)
    this.int16(0)
    this.int32(0)
    this.int32(messages.length)
    for (let n = 0; n < messages.length; n++) this.#record(messages[n]!, n, sizes[n]!)
    const end = this.#at
    this.#at = sizeAt
    this.int32(end - from)
    this.int64(0n)
    this.int32(end - from - uncountedBytes)
    this.int32(0)
    this.bytes[this.#at++] = magic
    this.bytes.writeUInt32BE(crc32c(this.bytes, from + uncheckedBytes, end), this.#at)
    this.#at = end
  }

  #record({ key, value, headers }: Message, offsetDelta: number, size: number): void {
    this.#varint(size)
    // Attributes, and the time since the batch's.
    this.bytes[this.#at++] = 0
    this.bytes[this.#at++] = 0
    this.#varint(offsetDelta)
    this.#part(key as Buffer | null)
    this.#part(value as Buffer | null)
    let count = 0
    for (const _ in headers) count++
    this.#varint(count)
    for (const name in headers) {
      for (const text of [name, headers[name] as string]) {
        const length = Buffer.byteLength(text)
        this.#varint(length)
        this.text(text, length)
      }
    }
  }

  #part(part: Buffer | null): void {
    if (part === null) {
      // -1
      this.bytes[this.#at++] = 1
      return
    }
    this.#varint(part.length)
    this.bytes.set(part, this.#at)
    this.#at += part.length
  }

  #varint(value: number): void {
    let rest = value * 2
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.bytes[this.#at++] = (rest % 0x80) | 0x80
    this.bytes[this.#at++] = rest
  }
}
