/**
 * Finds the records whose id, slug or title is the whole query: they come before all others. The words of a slug may be
 * typed with spaces between them.
 */

import { crc32 } from '../checksum.ts'
import { type KeyKind, keyKinds } from '../format.ts'
import { lookUpPairs } from '../reader/pairs.ts'
import { readRecord, type StoredRecord } from '../reader/records.ts'
import { textOf } from '../reader/text.ts'
import type { Engine } from './engine.ts'

/** Above every sum of scores of words. */
export const tierStep = 2 ** 30
const tiers: readonly [KeyKind, number][] = [
  ['title', 1],
  ['slug', 2],
  ['id', 3],
]

/** The best tier of each such record. */
export function exactRecords(engine: Engine, query: string): Map<number, number> {
  const found = new Map<number, number>()
  const text = query.trim()
  const folded = engine.analyzer.fold(text)
  if (folded === '') return found
  for (const [kind, tier] of tiers) {
    for (const key of keysOf(kind, text, folded)) {
      for (const record of lookUpPairs(engine.file, 'keys', crc32(keyKinds[kind] + key))) {
        if (keyOf(engine, readRecord(engine.file, record), kind) === key) found.set(record, tier)
      }
    }
  }
  return found
}

function keysOf(kind: KeyKind, text: string, folded: string): string[] {
  if (kind === 'id') return [text]
  const isSpacedSlug = kind === 'slug' && folded.includes(' ')
  return isSpacedSlug ? [folded, folded.replaceAll(' ', '-')] : [folded]
}

/** The number of the record with this id. */
export function recordWithId(file: Engine['file'], id: string): StoredRecord | null {
  for (const number of lookUpPairs(file, 'keys', crc32(keyKinds.id + id))) {
    const record = readRecord(file, number)
    if (record.head.id === id) return record
  }
  return null
}

function keyOf({ analyzer }: Engine, { head }: StoredRecord, kind: KeyKind): string {
  return kind === 'id' ? head.id : analyzer.fold(textOf(head, kind))
}
