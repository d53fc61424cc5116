/** Writes pages of pairs of a hash and a number, sorted by hash; what exceeds memory is sorted in files and merged. */

import { pairPageBytes, pairsPerPage } from '../format.ts'
import { placedSum } from './checksum.ts'
import { type FileSink, openFileSink } from './file-sink.ts'
import { type FileSource, openFileSource } from './file-source.ts'

/** Eight bytes each. */
const pairsHeldMax = 3 << 19

export class PairSorter {
  readonly #folder: string
  readonly #name: 'keys' | 'deletions'
  readonly #limit: number
  readonly #files: string[] = []
  #pairs = new BigUint64Array(1 << 12)
  #halves = new Uint32Array(this.#pairs.buffer)
  #held = 0
  count = 0

  constructor(folder: string, name: 'keys' | 'deletions', limit = pairsHeldMax) {
    this.#folder = folder
    this.#name = name
    this.#limit = limit
  }

  /** Both 32 bits. */
  add(hash: number, value: number): void {
    if (this.#held === this.#limit) this.#spill()
    if (this.#held === this.#pairs.length) this.#grow()
    this.#halves[this.#held * 2] = value
    this.#halves[this.#held * 2 + 1] = hash
    this.#held++
    this.count++
  }

  /** Writes all pairs as pages. */
  writePages(sink: FileSink): void {
    const page = Buffer.alloc(pairPageBytes)
    let filled = 0
    let pages = 0
    const writePage = () => {
      page.fill(0, 8 + filled * 8)
      page.writeUInt32LE(filled, 4)
      page.writeUInt32LE(placedSum(page.subarray(4), this.#name, pages++), 0)
      sink.write(page)
      filled = 0
    }
    this.#inOrder((hash, value) => {
      page.writeUInt32LE(hash, 8 + filled * 8)
      page.writeUInt32LE(value, 12 + filled * 8)
      if (++filled === pairsPerPage) writePage()
    })
    if (filled > 0) writePage()
  }

  #grow(): void {
    const larger = new BigUint64Array(this.#pairs.length * 2)
    larger.set(this.#pairs)
    this.#pairs = larger
    this.#halves = new Uint32Array(larger.buffer)
  }

  #inOrder(visit: (hash: number, value: number) => void): void {
    if (this.#files.length > 0) {
      this.#spill()
      mergeFiles(this.#files, visit)
    } else {
      this.#pairs.subarray(0, this.#held).sort()
      for (let i = 0; i < this.#held; i++) visit(this.#halves[i * 2 + 1]!, this.#halves[i * 2]!)
    }
  }

  #spill(): void {
    const sorted = this.#pairs.subarray(0, this.#held).sort()
    const file = `${this.#folder}/${this.#name}-${this.#files.length}`
    const sink = openFileSink(file)
    sink.write(new Uint8Array(sorted.buffer, 0, this.#held * 8))
    sink.flush()
    sink.close()
    this.#files.push(file)
    this.#held = 0
  }
}

interface Head {
  hash: number
  value: number
  source: FileSource
}

function mergeFiles(files: string[], visit: (hash: number, value: number) => void): void {
  const sources = files.map((file) => openFileSource(file, 1 << 16))
  try {
    const heads = sources.flatMap((source) => nextOf(source) ?? [])
    while (heads.length > 0) {
      let least = 0
      for (let i = 1; i < heads.length; i++) if (isBefore(heads[i]!, heads[least]!)) least = i
      const { hash, value, source } = heads[least]!
      visit(hash, value)
      const next = nextOf(source)
      if (next) heads[least] = next
      else heads.splice(least, 1)
    }
  } finally {
    for (const source of sources) source.close()
  }
}

function isBefore(a: Head, b: Head): boolean {
  return a.hash !== b.hash ? a.hash < b.hash : a.value < b.value
}

function nextOf(source: FileSource): Head | null {
  const bytes = source.take(8)
  return bytes && { hash: bytes.readUInt32LE(4), value: bytes.readUInt32LE(0), source }
}
