/** Reads stored records by their numbers. */

import { InexactNumber, parseExact } from '../exact-json.ts'
import { badIndex } from '../fault.ts'
import { noBody, offsetBytes, offsetPageBytes, offsetsPerPage, recordHeadBytes } from '../format.ts'
import type { IndexFile } from './file.ts'

/** Enough for the head of most records, so that one read does. */
const firstReadBytes = 1024

export interface StoredRecord {
  /** Everything but a body that is a string. */
  head: Record<string, unknown> & { id: string }
  body(): string | null
}

export function readRecord(file: IndexFile, number: number): StoredRecord {
  const at = placeOf(file, number)
  const start = file.readSome('records', at, firstReadBytes)
  if (start.length < recordHeadBytes) throw damaged()
  const headEnd = recordHeadBytes + start.readUInt32LE(4)
  const bytes = headEnd <= start.length ? start : file.read('records', at, headEnd)
  if (!file.isSound(bytes.subarray(4, headEnd), bytes.readUInt32LE(0), 'records', at)) throw damaged()
  const bodyLength = bytes.readUInt32LE(8)
  const bodySum = bytes.readUInt32LE(12)
  return {
    head: parseHead(bytes.toString('utf8', recordHeadBytes, headEnd)),
    body() {
      if (bodyLength === noBody) return null
      const bodyEnd = headEnd + bodyLength
      const body =
        bodyEnd <= bytes.length
          ? bytes.subarray(headEnd, bodyEnd)
          : file.read('records', at + headEnd, bodyLength)
      if (bodySum !== file.checksum(body)) throw damaged()
      return body.toString('utf8')
    },
  }
}

/** The record as it was given, its id first. */
export function wholeRecord(record: StoredRecord): Record<string, unknown> {
  const body = record.body()
  return body === null ? record.head : { ...record.head, body }
}

function placeOf(file: IndexFile, number: number): number {
  if (number >= file.header.records) throw damaged()
  const pageNumber = Math.floor(number / offsetsPerPage)
  const page = file.read('offsets', pageNumber * offsetPageBytes, offsetPageBytes)
  const sum = page.readUInt32LE(offsetPageBytes - 4)
  if (!file.isSound(page.subarray(0, offsetPageBytes - 4), sum, 'offsets', pageNumber)) throw damaged()
  const place = page.readUIntLE((number % offsetsPerPage) * offsetBytes, offsetBytes)
  if (place > file.header.sections.records.length) throw damaged()
  return place
}

function parseHead(text: string): StoredRecord['head'] {
  try {
    const head = parseExact(text) as StoredRecord['head'] | null
    if (head !== null && typeof head === 'object' && typeof head.id === 'string') return head
  } catch (error) {
    if (error instanceof InexactNumber) throw badIndex(`cannot be read: ${error.message}`)
    // The checksum was right, so the writer of the file wrote no JSON.
  }
  throw damaged()
}

function damaged(): Error {
  return badIndex('is damaged (records)')
}
