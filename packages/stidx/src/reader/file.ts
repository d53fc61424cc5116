/** Reads stretches of an index file by their places, checked against its header; nothing else is read. */

import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { crc32 } from '../checksum.ts'
import type { Analyzer } from '../contract.ts'
import { badIndex } from '../fault.ts'
import {
  decodeHeader,
  type Header,
  headerBytes,
  type PlacedSection,
  placeMark,
  type SectionName,
} from '../format.ts'

export interface IndexFile {
  header: Header
  /** Bytes of a section; a stretch that is not wholly inside is a fault. */
  read(section: SectionName, offset: number, length: number): Buffer
  /** Up to `length` bytes: fewer only where the section ends. */
  readSome(section: SectionName, offset: number, length: number): Buffer
  checksum(bytes: Uint8Array): number
  /** Whether this is the checksum of what lies at this place; `place` as `placeMark` takes it. */
  isSound(bytes: Uint8Array, sum: number, section: PlacedSection, place: number): boolean
  close(): void
}

/** @throws SearchFault in one line that names the file. */
export function openIndexFile(file: string, analyzer: Pick<Analyzer, 'id' | 'version'>): IndexFile {
  const fd = open(file)
  try {
    const header = readHeader(fd)
    const { id, version } = header.analyzer
    if (id !== analyzer.id || version !== analyzer.version) {
      throw badIndex(
        `was built by analyser ${id} ${version}, not ${analyzer.id} ${analyzer.version}: index again`,
      )
    }
    return indexFile(fd, header)
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

function indexFile(fd: number, header: Header): IndexFile {
  function read(section: SectionName, offset: number, length: number): Buffer {
    const { offset: start, length: whole } = header.sections[section]
    if (!(offset >= 0 && length >= 0 && offset + length <= whole)) throw badIndex(`is damaged (${section})`)
    const bytes = Buffer.allocUnsafe(length)
    for (let done = 0; done < length; ) {
      const got = readAt(fd, bytes, done, start + offset + done)
      if (got === 0) throw badIndex('was cut off while it was read')
      done += got
    }
    return bytes
  }
  return {
    header,
    read,
    checksum: crc32,
    isSound(bytes, sum, section, place) {
      const mark = header.hasPlaces ? placeMark(section, place) : 0
      return crc32(bytes) === (sum ^ mark) >>> 0
    },
    readSome(section, offset, length) {
      return read(section, offset, Math.min(length, header.sections[section].length - offset))
    },
    close: () => closeSync(fd),
  }
}

function readHeader(fd: number): Header {
  const stat = fstatSync(fd)
  if (!stat.isFile()) throw badIndex('is no file')
  const bytes = Buffer.alloc(headerBytes)
  const got = readAt(fd, bytes, 0, 0)
  return decodeHeader(bytes.subarray(0, got), stat.size)
}

/** Bytes read into the rest of `into` behind `done`. A file may open and then refuse to be read. */
function readAt(fd: number, into: Buffer, done: number, position: number): number {
  try {
    return readSync(fd, into, done, into.length - done, position)
  } catch (error) {
    throw badIndex(`cannot be read: ${reasonOf(error)}`)
  }
}

const reasons: Record<string, string> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
}

function open(file: string): number {
  try {
    return openSync(file, 'r')
  } catch (error) {
    throw badIndex(`cannot be read: ${reasonOf(error)}`)
  }
}

function reasonOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  return reasons[code] ?? code
}
