/** Merges sorted runs into one entry for each term, with all its postings. */

import { ByteWriter } from './byte-writer.ts'
import { type FileSource, openFileSource } from './file-source.ts'

export interface RunList {
  count: number
  bytes: Buffer
  positions: Buffer
}

export interface MergedTerm {
  /** UTF-8 bytes, one character each. */
  key: string
  /** For a surface, how often it was met; else the number of postings. */
  count: number
  /** The lists of the runs in their order; valid until the next term. */
  lists: readonly RunList[]
}

interface RunHead {
  run: number
  source: FileSource
  key: string
  count: number
  listBytes: number
  positionsBytes: number
}

/** Visits all terms by rising key; the runs hold rising stretches of records, so their lists follow each other. */
export function mergeRuns(files: readonly string[], visit: (term: MergedTerm) => void): void {
  const sources = files.map((file) => openFileSource(file))
  try {
    const queue = new Queue()
    sources.forEach((source, run) => {
      const head = readHead(source, run)
      if (head) queue.push(head)
    })
    const buffers = files.map(() => new ByteWriter(1 << 10))
    while (queue.size > 0) visit(takeTerm(queue, buffers))
  } finally {
    for (const source of sources) source.close()
  }
}

function takeTerm(queue: Queue, buffers: readonly ByteWriter[]): MergedTerm {
  const key = queue.least().key
  const lists: RunList[] = []
  let count = 0
  while (queue.size > 0 && queue.least().key === key) {
    const head = queue.least()
    const buffer = buffers[head.run]!
    buffer.length = 0
    buffer.append(head.source.take(head.listBytes + head.positionsBytes)!)
    const both = buffer.written()
    const [bytes, positions] = [both.subarray(0, head.listBytes), both.subarray(head.listBytes)]
    lists.push({ count: head.count, bytes, positions })
    count += head.count
    queue.replaceLeast(readHead(head.source, head.run))
  }
  return { key, count, lists }
}

function readHead(source: FileSource, run: number): RunHead | null {
  const length = source.take(2)
  if (!length) return null
  const keyLength = length.readUInt16LE(0)
  const rest = source.take(keyLength + 12)!
  return {
    run,
    source,
    key: rest.toString('latin1', 0, keyLength),
    count: rest.readUInt32LE(keyLength),
    listBytes: rest.readUInt32LE(keyLength + 4),
    positionsBytes: rest.readUInt32LE(keyLength + 8),
  }
}

/** A binary heap by key, then by run. */
class Queue {
  readonly #heads: RunHead[] = []

  get size(): number {
    return this.#heads.length
  }

  least(): RunHead {
    return this.#heads[0]!
  }

  push(head: RunHead): void {
    const heads = this.#heads
    let at = heads.push(head) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!comesBefore(heads[at]!, heads[parent]!)) break
      ;[heads[at], heads[parent]] = [heads[parent]!, heads[at]!]
      at = parent
    }
  }

  /** Null: the run is at its end. */
  replaceLeast(head: RunHead | null): void {
    const heads = this.#heads
    const last = head ?? heads.pop()!
    if (heads.length === 0) return
    heads[0] = last
    let at = 0
    while (true) {
      let child = at * 2 + 1
      if (child >= heads.length) return
      if (child + 1 < heads.length && comesBefore(heads[child + 1]!, heads[child]!)) child++
      if (!comesBefore(heads[child]!, heads[at]!)) return
      ;[heads[at], heads[child]] = [heads[child]!, heads[at]!]
      at = child
    }
  }
}

function comesBefore(a: RunHead, b: RunHead): boolean {
  return a.key !== b.key ? a.key < b.key : a.run < b.run
}
