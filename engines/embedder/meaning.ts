/**
 * A learned table of word pieces: the sum of the rows of a text's pieces points where a language model would (meaning/NOTICE,
 * scripts/embedder). Integers, the four operations and square roots in a fixed order: the same bytes on every machine.
 */

import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { AppError } from '#lib/errors.ts'
import { createWordPieces } from './word-pieces.ts'

const table = new URL('./meaning/flotilla-meaning-1.bin', import.meta.url)
const tableSha256 = '8faa7adae7855a0685cb9e96920173376cf2c49a4939bdf186080222c9823781'
const magic = 'FSEM0001'
/** Magic, then counts of pieces, dimensions and bytes of the vocabulary, and a zero, each of four bytes, little-endian. */
const headBytes = 24

/** A unit vector, shorter than the platform's; undefined where no piece of the text is known. */
export type MeaningOf = (text: string) => Float64Array | undefined

let opened: MeaningOf | undefined

/** Reads the table that comes with the platform, once in a thread. Throws AppError `invalid_configuration` when it is damaged. */
export function openMeaning(): MeaningOf {
  opened ??= readMeaning(readFileSync(table), tableSha256)
  return opened
}

/** Throws AppError `invalid_configuration` for bytes that are another table, or a damaged one. */
export function readMeaning(file: Buffer, sha256: string): MeaningOf {
  if (hash('sha256', file) !== sha256) {
    throw new AppError(
      'invalid_configuration',
      'The table of the built-in embedder is damaged: install the platform again, or set EMBEDDER=lexical.',
    )
  }
  if (file.toString('latin1', 0, magic.length) !== magic) throw new Error('no table of word pieces')
  const [count, width, vocabularyBytes] = [8, 12, 16].map((at) => file.readUInt32LE(at)) as [
    number,
    number,
    number,
  ]
  const pieces = file
    .toString('utf8', headBytes, headBytes + vocabularyBytes)
    .trimEnd()
    .split('\n')
  const rows = new Int8Array(file.buffer, file.byteOffset + headBytes + vocabularyBytes, count * width)
  if (pieces.length !== count) throw new Error('the table names other pieces than it has rows')
  const piecesOf = createWordPieces(pieces)

  return (text) => {
    const sums = new Int32Array(width)
    for (const piece of piecesOf(text)) {
      const row = piece * width
      for (let n = 0; n < width; n++) sums[n]! += rows[row + n]!
    }
    let squares = 0
    for (let n = 0; n < width; n++) squares += sums[n]! * sums[n]!
    if (squares === 0) return undefined
    const norm = Math.sqrt(squares)
    return Float64Array.from(sums, (sum) => sum / norm)
  }
}
