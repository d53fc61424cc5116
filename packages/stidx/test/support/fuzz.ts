/** Damages an index file in many ways and looks whether every answer is the true one or a one-line refusal. */

import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { crc32 } from '../../src/checksum.ts'
import type { LocalIndex } from '../../src/contract.ts'
import { SearchFault } from '../../src/fault.ts'
import { headerBytes, offsetPageBytes, pairPageBytes, placeMark, treePageBytes } from '../../src/format.ts'
import { openIndex } from '../../src/index-file.ts'
import { seededRandom } from './index.ts'

export interface FuzzReport {
  mutations: number
  refused: number
  /** Answered as before: the damaged bytes were not read. */
  same: number
  /** Only where checksums were made to fit: something else, but no crash. */
  other: number
  slowestMs: number
}

type Random = (below: number) => number

interface Mutation {
  /** Whether checksums were made to fit the damage: then nobody can tell, and any answer will do. */
  isForged: boolean
  undo(): void
}

const queries = [
  'whale gateway',
  'the of run',
  'lighthose quoka',
  'deploy* status:active',
  'd*',
  '"blue gateway" title:deploy',
  'rec-3',
]
const ids = ['rec-1', 'rec-40', 'nothing']

/** @throws at the first answer that is neither true nor a refusal. `onProgress` is called every 1,000 mutations. */
export function fuzzIndex(
  file: string,
  mutations: number,
  seed: number,
  onProgress: (report: FuzzReport) => void = () => {},
): FuzzReport {
  const pristine = readFileSync(file)
  const truth = askAll(openIndex(file))
  const below = seededRandom(seed)
  const random: Random = (most) => Math.floor(below() * most)
  const report: FuzzReport = { mutations: 0, refused: 0, same: 0, other: 0, slowestMs: 0 }
  const fd = openSync(file, 'r+')
  try {
    for (let i = 0; i < mutations; i++) {
      const mutation = mutate(fd, pristine, random)
      const startedAt = performance.now()
      const outcome = judge(file, truth, mutation.isForged, `mutation ${i} of seed ${seed}`)
      report.slowestMs = Math.max(report.slowestMs, performance.now() - startedAt)
      report[outcome]++
      report.mutations++
      mutation.undo()
      if (report.mutations % 1000 === 0) onProgress(report)
    }
  } finally {
    closeSync(fd)
  }
  return report
}

function judge(file: string, truth: string, isForged: boolean, name: string): 'refused' | 'same' | 'other' {
  try {
    const answer = askAll(openIndex(file))
    if (answer === truth) return 'same'
    if (isForged) return 'other'
    throw new Error(`${name}: a wrong answer: ${answer.slice(0, 500)}`)
  } catch (error) {
    const isRefusal = error instanceof SearchFault && !error.message.includes('\n')
    if (isRefusal) return 'refused'
    throw new Error(`${name}: ${String(error)}`, { cause: error })
  }
}

function askAll(index: LocalIndex): string {
  try {
    const answers = queries.map((query) => ({ ...index.search(query), took_ms: 0 }))
    return JSON.stringify([answers, ids.map((id) => index.get(id)), index.stats().records])
  } finally {
    index.close()
  }
}

/** Every kind of damage as often as the others. */
function mutate(fd: number, pristine: Buffer, random: Random): Mutation {
  const kinds = [
    cut,
    lengthen,
    flipBit,
    setBytes,
    copyStretch,
    movePart,
    forgeHeader,
    forgePage,
    damageHeader,
  ]
  return kinds[random(kinds.length)]!(fd, pristine, random)
}

function patched(fd: number, pristine: Buffer, at: number, bytes: Buffer, isForged = false): Mutation {
  const length = Math.min(bytes.length, pristine.length - at)
  writeSync(fd, bytes, 0, length, at)
  const undo = () => void writeSync(fd, pristine, at, length, at)
  return { isForged, undo }
}

function cut(fd: number, pristine: Buffer, random: Random): Mutation {
  const length = random(4) === 0 ? random(600) : random(pristine.length)
  ftruncateSync(fd, length)
  const undo = () => void writeSync(fd, pristine, length, pristine.length - length, length)
  return { isForged: false, undo }
}

function lengthen(fd: number, pristine: Buffer, random: Random): Mutation {
  writeSync(fd, Buffer.alloc(1 + random(5000), random(256)), 0, undefined, fstatSync(fd).size)
  return { isForged: false, undo: () => ftruncateSync(fd, pristine.length) }
}

function flipBit(fd: number, pristine: Buffer, random: Random): Mutation {
  const at = random(pristine.length)
  return patched(fd, pristine, at, Buffer.from([pristine[at]! ^ (1 << random(8))]))
}

function setBytes(fd: number, pristine: Buffer, random: Random): Mutation {
  const bytes = Buffer.from(Array.from({ length: 1 + random(64) }, () => (random(2) ? 255 : random(256))))
  return patched(fd, pristine, random(pristine.length), bytes)
}

function copyStretch(fd: number, pristine: Buffer, random: Random): Mutation {
  const from = random(pristine.length)
  const bytes = Buffer.from(pristine.subarray(from, from + 1 + random(4096)))
  return patched(fd, pristine, random(pristine.length), bytes)
}

function damageHeader(fd: number, pristine: Buffer, random: Random): Mutation {
  return patched(fd, pristine, random(headerBytes), Buffer.from([random(256), random(256)]))
}

/** A whole page or record, sound in itself, where another one belongs: what a write to a wrong place leaves. */
function movePart(fd: number, pristine: Buffer, random: Random): Mutation {
  const parts = [recordsOf, ...pagedSections.map((paged) => () => pagesOf(pristine, paged))][
    random(pagedSections.length + 1)
  ]!(pristine)
  const from = parts[random(parts.length)]!
  const to = parts[random(parts.length)]!
  return patched(fd, pristine, to.at, Buffer.from(pristine.subarray(from.at, from.at + from.bytes)))
}

interface Part {
  at: number
  bytes: number
}

interface Paged {
  names: Exclude<keyof typeof sectionNumbers, 'records'>[]
  pageBytes: number
}

const pagedSections: Paged[] = [
  { names: ['offsets'], pageBytes: offsetPageBytes },
  { names: ['keys', 'deletions'], pageBytes: pairPageBytes },
  { names: ['tree', 'beginnings'], pageBytes: treePageBytes },
]

/** Pages of one size, of all sections that have such. */
function pagesOf(pristine: Buffer, { names, pageBytes }: Paged): Part[] {
  return names.flatMap((name) => {
    const { start, length } = sectionOf(pristine, name)
    return Array.from({ length: length / pageBytes }, (_, i) => ({
      at: start + i * pageBytes,
      bytes: pageBytes,
    }))
  })
}

function recordsOf(pristine: Buffer): Part[] {
  const { start, length } = sectionOf(pristine, 'records')
  const parts: Part[] = []
  for (let at = start; at < start + length; ) {
    const body = pristine.readUInt32LE(at + 8)
    const bytes = 16 + pristine.readUInt32LE(at + 4) + (body === 0xffffffff ? 0 : body)
    parts.push({ at, bytes })
    at += bytes
  }
  return parts
}

/** Where the checksums of pages and records are, and of what; those of positions are left out: a small index has none. */
export function checksumsOf(
  index: Buffer,
): { at: number; section: keyof typeof sectionNumbers; place: number }[] {
  const { start } = sectionOf(index, 'records')
  const records = recordsOf(index).map(({ at }) => ({ at, section: 'records' as const, place: at - start }))
  const pages = pagedSections.flatMap(({ names, pageBytes }) =>
    names.flatMap((section) =>
      pagesOf(index, { names: [section], pageBytes }).map(({ at }, place) => {
        return { at: section === 'offsets' ? at + pageBytes - 4 : at, section, place }
      }),
    ),
  )
  return [...records, ...pages]
}

const sectionNumbers = { records: 0, offsets: 1, keys: 2, tree: 3, deletions: 5, beginnings: 7 }

function sectionOf(pristine: Buffer, name: keyof typeof sectionNumbers): { start: number; length: number } {
  const at = 160 + sectionNumbers[name] * 32
  return { start: pristine.readUInt32LE(at + 8), length: pristine.readUInt32LE(at + 16) }
}

/** Another number in the header, under a checksum that fits. */
function forgeHeader(fd: number, pristine: Buffer, random: Random): Mutation {
  const header = Buffer.from(pristine.subarray(0, headerBytes))
  const wild = [0, 1, 255, 65_535, 2 ** 31, 2 ** 32 - 1, random(2 ** 24)][random(7)]!
  header.writeUInt32LE(wild, 8 + random((headerBytes - 16) >> 2) * 4)
  header.writeUInt32LE(crc32(header.subarray(0, headerBytes - 4)), headerBytes - 4)
  return patched(fd, pristine, 0, header, true)
}

/** Wild bytes in a page of the tree or of pairs, or in a record, under a checksum that fits. */
function forgePage(fd: number, pristine: Buffer, random: Random): Mutation {
  const section = (['records', 'keys', 'tree', 'deletions', 'beginnings'] as const)[random(5)]!
  const { start, length } = sectionOf(pristine, section)
  const isTree = section === 'tree' || section === 'beginnings'
  const pageBytes = isTree
    ? treePageBytes
    : section === 'records'
      ? 16 + pristine.readUInt32LE(start + 4)
      : pairPageBytes
  const pages = section === 'records' ? 1 : Math.floor(length / pageBytes)
  if (pages === 0) return flipBit(fd, pristine, random)
  const number = random(pages)
  const at = start + number * pageBytes
  const page = Buffer.from(pristine.subarray(at, at + pageBytes))
  for (let i = random(8); i >= 0; i--) page[4 + random(pageBytes - 4)] = random(256)
  page.writeUInt32LE((crc32(page.subarray(4)) ^ placeMark(section, number)) >>> 0, 0)
  return patched(fd, pristine, at, page, true)
}
