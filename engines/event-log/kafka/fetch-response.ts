/**
 * Reads the answer to a fetch. kafkajs makes texts, maps and copies of every part of each record, which takes longer
 * than all other work of reading; here a record is a few numbers over the bytes that came. What is rare
 * (compression, transactions, control records, old formats, damage) is left to kafkajs.
 *
 * Formats: Kafka protocol guide, Fetch response version 11 and record batch magic 2.
 */

import type { Broker } from 'kafkajs'
import { changeExchanges, type Exchange } from './broker-calls.ts'
import { FetchedRecord } from './record.ts'
import { Varints } from './varints.ts'

const fetchVersion = 11
/** Of a record batch: what comes before its records; what its length does not count; what makes it unusual. */
const batchHeadBytes = 61
const uncountedBytes = 12
const magic = 2
const unusualAttributes = 0x37
const appendTimeAttribute = 0x08

interface FetchResponse {
  throttleTime: number
  clientSideThrottleTime: number
  errorCode: number
  sessionId: number
  responses: { topicName: string; partitions: FetchedPartition[] }[]
}

interface FetchedPartition {
  partition: number
  errorCode: number
  highWatermark: string
  lastStableOffset: string
  lastStartOffset: string
  abortedTransactions: never[]
  preferredReadReplica: number
  messages: FetchedRecord[]
}

/** From now on the answers to this broker's fetches hold a FetchedRecord for each record wherever possible. */
export function quickenFetches(broker: Broker): void {
  changeExchanges(broker, 'fetch', quickened)
}

function quickened(exchange: Exchange): Exchange {
  const { request, response } = exchange
  if (request.apiName !== 'Fetch' || request.apiVersion !== fetchVersion) return exchange
  const decode = async (bytes: Buffer) => decodeFetchResponse(bytes) ?? response.decode(bytes)
  return { ...exchange, response: { ...response, decode } }
}

/** null for what kafkajs has to read. */
export function decodeFetchResponse(bytes: Buffer): FetchResponse | null {
  try {
    return new ResponseReader(bytes).read()
  } catch (error) {
    // Cut short: kafkajs knows how to say so.
    if (error instanceof RangeError) return null
    throw error
  }
}

/** Thrown within this file only. */
class Unusual extends RangeError {}

class ResponseReader {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  read(): FetchResponse {
    const clientSideThrottleTime = this.#int32()
    const errorCode = this.#int16()
    const sessionId = this.#int32()
    const responses = this.#list(() => ({
      topicName: this.#text(),
      partitions: this.#list(() => this.#partition()),
    }))
    // A broker of this version has throttled already, says kafkajs, and reports 0 as well.
    return { throttleTime: 0, clientSideThrottleTime, errorCode, sessionId, responses }
  }

  #partition(): FetchedPartition {
    const partition = this.#int32()
    return {
      partition,
      errorCode: this.#int16(),
      highWatermark: String(this.#int64()),
      lastStableOffset: String(this.#int64()),
      lastStartOffset: String(this.#int64()),
      abortedTransactions: this.#list(() => {
        throw new Unusual()
      }),
      preferredReadReplica: this.#int32(),
      messages: this.#recordSet(partition),
    }
  }

  /** The last batch is often cut off: the next fetch brings it. */
  #recordSet(partition: number): FetchedRecord[] {
    const size = Math.max(0, this.#int32())
    const end = this.#at + size
    if (end > this.#bytes.length) throw new Unusual()
    const records: FetchedRecord[] = []
    for (let at = this.#at; at + batchHeadBytes <= end; ) {
      const next = at + uncountedBytes + this.#bytes.readInt32BE(at + 8)
      if (this.#bytes[at + 16] !== magic || next < at + batchHeadBytes) throw new Unusual()
      if (next > end) break
      readBatch(this.#bytes, at, next, partition, records)
      at = next
    }
    this.#at = end
    return records
  }

  #list<T>(read: () => T): T[] {
    const items: T[] = []
    for (let left = this.#int32(); left > 0; left--) items.push(read())
    return items
  }

  #text(): string {
    const length = this.#int16()
    if (length < 0) throw new Unusual()
    this.#at += length
    return this.#bytes.toString('utf8', this.#at - length, this.#at)
  }

  #int16(): number {
    this.#at += 2
    return this.#bytes.readInt16BE(this.#at - 2)
  }

  #int32(): number {
    this.#at += 4
    return this.#bytes.readInt32BE(this.#at - 4)
  }

  #int64(): bigint {
    this.#at += 8
    return this.#bytes.readBigInt64BE(this.#at - 8)
  }
}

/** Offsets and times: exact below 2^53. */
function readBatch(
  bytes: Buffer,
  at: number,
  end: number,
  partition: number,
  records: FetchedRecord[],
): void {
  const attributes = bytes.readInt16BE(at + 21)
  if ((attributes & unusualAttributes) !== 0) throw new Unusual()
  const firstOffset = Number(bytes.readBigInt64BE(at))
  const firstTime = Number(bytes.readBigInt64BE(at + 27))
  const appendTime = (attributes & appendTimeAttribute) === 0 ? 0 : Number(bytes.readBigInt64BE(at + 35))
  const count = bytes.readInt32BE(at + 57)
  const reader = new Varints(bytes, at + batchHeadBytes, end)
  for (let left = count; left > 0; left--) {
    const length = reader.number()
    const recordEnd = reader.at + length
    // A byte of attributes, which is not used.
    if (length < 1 || !reader.skip(1)) throw new Unusual()
    const time = reader.number() + firstTime
    const offset = firstOffset + reader.number()
    records.push(new FetchedRecord(partition, offset, appendTime || time, reader, recordEnd))
    if (reader.failed || reader.at > recordEnd || recordEnd > end) throw new Unusual()
    reader.at = recordEnd
  }
}
