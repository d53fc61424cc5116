/** The WebAssembly kernel with its memory: posting lists go in, scores build up, the best records come out. */

import { badIndex } from '../fault.ts'
import { literalWeights, treePageBytes } from '../format.ts'
import { kernelBytes } from './kernel-bytes.ts'
import { type WasmMemory, webAssembly } from './webassembly.ts'

interface Exports {
  memory: WasmMemory
  begin(records: number, scores: number, met: number, group: number, inGroup: number): void
  prepare(): void
  checksum(p: number, length: number, crc: number): number
  filter(bits: number): void
  openPage(page: number): void
  nextEntry(): number
  keyLength(): number
  valueAt(): number
  valueLength(): number
  seekEntry(length: number): number
  childFor(length: number): number
  nthEntry(index: number): number
  walk(use: number, p: number, length: number, count: number, scored: number, a: number, b: number): number
  scoreAll(p: number, length: number, count: number, weight: number): number
  find(p: number, length: number, count: number, record: number): number
  groupCount(): number
  addGroup(weight: number): void
  dropGroup(): void
  lift(record: number, add: number): void
  metCount(): number
  best(limit: number, out: number): number
  end(): void
}

/** A posting list in the kernel's memory. */
export interface LoadedList {
  at: number
  length: number
  count: number
}

export interface Ranked {
  record: number
  score: number
}

const use = { score: 0, mark: 1, gather: 2 }
const literalSumsAt = 512
const copyAt = 9216
const copyBytes = 4096
const keyAt = 13_312
const wantedAt = 13_824
const pagesAt = 14_336
/** Pages of the tree that are kept, each in the place that its number gives it. */
const pagePlaces = 256
const firstFree = pagesAt + pagePlaces * treePageBytes
/** What a list that is not sound may make the kernel touch behind it, and behind the arrays, before it is found out. */
const slackBytes = 1024
const slackRecords = 16_512
const pageBytes = 65_536

/** Once for all indexes that a process opens. */
let compiled: object | undefined

/** One search at a time: `begin`, lists and scores, `best`, `end`. After a fault it must not be used again. */
export class Kernel {
  readonly #records: number
  readonly #exports: Exports
  readonly #arena: number
  /** Entries of each array. */
  readonly #slots: number
  #free: number
  #isFiltered = false

  constructor(records: number) {
    this.#records = records
    compiled ??= new webAssembly.Module(Buffer.from(kernelBytes, 'base64'))
    this.#exports = new webAssembly.Instance(compiled).exports as unknown as Exports
    this.#slots = records + slackRecords
    this.#arena = firstFree + align(this.#slots * 14)
    this.#free = this.#arena
    this.#reach(this.#arena)
    this.#exports.prepare()
    const sums = new Uint32Array(this.#exports.memory.buffer, literalSumsAt, 16)
    for (let fields = 0; fields < 16; fields++) sums[fields] = literalSum(fields)
  }

  begin(): void {
    const slots = this.#slots
    const met = firstFree + slots * 4
    const inGroup = met + slots * 4
    this.#free = this.#arena
    this.#isFiltered = false
    this.#exports.begin(this.#records, firstFree, met, inGroup + slots * 4, inGroup)
  }

  end(): void {
    this.#exports.end()
  }

  /** Room for the current search; its content is what an earlier one left. */
  allocate(length: number): Uint8Array {
    const at = this.#free
    this.#free += align(length + slackBytes)
    this.#reach(this.#free)
    return new Uint8Array(this.#exports.memory.buffer, at, length)
  }

  /** One bit a record, all 0. */
  allocateBits(): Uint8Array {
    return this.allocate(align(Math.ceil(this.#records / 8))).fill(0)
  }

  /** A view of bytes that lay at `at` when memory grew. */
  view(at: number, length: number): Uint8Array {
    return new Uint8Array(this.#exports.memory.buffer, at, length)
  }

  /** CRC-32 of bytes that lie in the kernel's memory. */
  checksumOf(bytes: Uint8Array): number {
    return this.#exports.checksum(bytes.byteOffset, bytes.length, 0) >>> 0
  }

  /** CRC-32 of bytes from anywhere else. */
  checksumOfCopy(bytes: Uint8Array): number {
    let crc = 0
    for (let at = 0; at < bytes.length; at += copyBytes) {
      const piece = bytes.subarray(at, at + copyBytes)
      new Uint8Array(this.#exports.memory.buffer).set(piece, copyAt)
      crc = this.#exports.checksum(copyAt, piece.length, crc)
    }
    return crc >>> 0
  }

  /** Where a page of the tree is kept, as bytes to be filled or read. */
  pagePlace(number: number): { place: number; bytes: Uint8Array } {
    const place = number % pagePlaces
    return { place, bytes: this.view(pagesAt + place * treePageBytes, treePageBytes) }
  }

  /** Begins a walk through the entries of the page in this place. */
  openPage(place: number): void {
    this.#exports.openPage(pagesAt + place * treePageBytes)
  }

  /** Walks on to the first entry not below the key; whether it is equal or above, or there is none. */
  seek(key: Uint8Array): 'equal' | 'above' | 'none' {
    this.view(wantedAt, key.length).set(key)
    const state = checkedEntry(this.#exports.seekEntry(key.length))
    return state === 2 ? 'equal' : state === 1 ? 'above' : 'none'
  }

  /** Number of the page below in which the key stands or would stand. */
  childFor(key: Uint8Array): number {
    this.view(wantedAt, key.length).set(key)
    return checkedEntry(this.#exports.childFor(key.length))
  }

  /** False at the end of the page. */
  nextEntry(): boolean {
    return checkedEntry(this.#exports.nextEntry()) === 1
  }

  /** Walks from the beginning of a page to the entry of this index; false where there are not so many. */
  nthEntry(index: number): boolean {
    return checkedEntry(this.#exports.nthEntry(index)) === 1
  }

  /** Key and value of the entry at hand, copied. */
  entryKey(): Buffer {
    return Buffer.from(this.view(keyAt, this.#exports.keyLength()))
  }

  entryValue(): Buffer {
    return Buffer.from(this.view(this.#exports.valueAt(), this.#exports.valueLength()))
  }

  /** From here on only these records count; null: all. */
  filter(bitsAt: number | null): void {
    this.#isFiltered = bitsAt !== null
    this.#exports.filter(bitsAt ?? 0)
  }

  score(list: LoadedList, weight: number): void {
    if (this.#isFiltered) this.#walk(use.score, list, true, weight, 0)
    else if (this.#exports.scoreAll(list.at, list.length, list.count, weight) !== 0) throw damaged()
  }

  /** Sets the bits of the records in the list; with `fields`, of those that have it in one of them. */
  mark(list: LoadedList, scored: boolean, fields: number, bitsAt: number): void {
    this.#walk(use.mark, list, scored, scored ? fields : 0, bitsAt)
  }

  /** Joins several lists to one word. */
  gather(list: LoadedList): void {
    this.#walk(use.gather, list, true, 0, 0)
  }

  groupCount(): number {
    return this.#exports.groupCount()
  }

  /** Fields in which the gathered word stands in the record. */
  gatheredFields(record: number): number {
    const inGroup = firstFree + this.#slots * 8
    const group = inGroup + this.#slots * 4
    return new DataView(this.#exports.memory.buffer).getUint16(group + record * 2, true) & 15
  }

  dropGroup(): void {
    this.#exports.dropGroup()
  }

  /** Adds the gathered word to the scores: by impact and weight, or its literal sum where the weight is null. */
  addGroup(weight: number | null): void {
    this.#exports.addGroup(weight ?? 0)
  }

  /** Adds to the score of one record, unless a filter holds it back. */
  lift(record: number, add: number): void {
    this.#exports.lift(record, add)
  }

  metCount(): number {
    return this.#exports.metCount()
  }

  /** Fields in which the term stands in the record; 0: not at all. */
  fieldsIn(list: LoadedList, record: number): number {
    const found = this.#exports.find(list.at, list.length, list.count, record)
    if (found === -1) throw damaged()
    return found & 15
  }

  /** By falling score, then by rising record. */
  best(limit: number): Ranked[] {
    const most = Math.min(limit, this.#exports.metCount())
    const at = this.allocate(most * 8).byteOffset
    const count = this.#exports.best(most, at)
    const pairs = new Uint32Array(this.#exports.memory.buffer, at, count * 2)
    return Array.from({ length: count }, (_, i) => ({ score: pairs[i * 2]!, record: pairs[i * 2 + 1]! }))
  }

  #walk(how: number, list: LoadedList, scored: boolean, a: number, b: number): void {
    if (this.#exports.walk(how, list.at, list.length, list.count, scored ? 1 : 0, a, b) !== 0) throw damaged()
  }

  #reach(bytes: number): void {
    const missing = bytes - this.#exports.memory.buffer.byteLength
    if (missing > 0) this.#exports.memory.grow(Math.ceil(missing / pageBytes))
  }
}

export function literalSum(fields: number): number {
  return literalWeights.reduce((sum, weight, i) => sum + (fields & (1 << i) ? weight : 0), 0)
}

function checkedEntry(state: number): number {
  if (state === -1) throw badIndex('is damaged (tree)')
  return state
}

function align(bytes: number): number {
  return Math.ceil(bytes / 16) * 16
}

function damaged(): Error {
  return badIndex('is damaged (postings)')
}
