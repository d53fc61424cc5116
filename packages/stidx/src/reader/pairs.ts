/** Looks up a hash in a table of sorted pairs of a hash and a number. */

import { badIndex } from '../fault.ts'
import { pairPageBytes, pairsPerPage } from '../format.ts'
import type { IndexFile } from './file.ts'

/** Reads two or three pages: hashes are spread evenly, so their place can be guessed. */
export function lookUpPairs(file: IndexFile, section: 'keys' | 'deletions', hash: number): number[] {
  const { count } = file.header.sections[section]
  const pages = Math.ceil(count / pairsPerPage)
  const found: number[] = []
  for (let number = firstPageWith(file, section, pages, hash); number < pages; number++) {
    const page = readPage(file, section, number)
    const pairs = page.readUInt32LE(4)
    for (let i = 0; i < pairs; i++) {
      const its = page.readUInt32LE(8 + i * 8)
      if (its > hash) return found
      if (its === hash) found.push(page.readUInt32LE(12 + i * 8))
    }
  }
  return found
}

/** The first page whose last hash is not below `hash`; the bounds close in with every page that is read. */
function firstPageWith(file: IndexFile, section: 'keys' | 'deletions', pages: number, hash: number): number {
  let low = 0
  let high = pages
  let lowHash = 0
  let highHash = 2 ** 32
  while (low < high) {
    const share = (hash - lowHash) / (highHash - lowHash + 1)
    const guess = Math.min(high - 1, Math.max(low, low + Math.floor(share * (high - low))))
    const page = readPage(file, section, guess)
    const pairs = page.readUInt32LE(4)
    const first = page.readUInt32LE(8)
    const last = page.readUInt32LE(8 * pairs)
    if (last < hash) {
      low = guess + 1
      lowHash = last
    } else {
      high = guess
      highHash = first
      if (first < hash) return guess
    }
  }
  return low
}

function readPage(file: IndexFile, section: 'keys' | 'deletions', number: number): Buffer {
  const page = file.read(section, number * pairPageBytes, pairPageBytes)
  const pairs = page.readUInt32LE(4)
  const isSound = file.isSound(page.subarray(4), page.readUInt32LE(0), section, number)
  if (!isSound || pairs === 0 || pairs > pairsPerPage) {
    throw badIndex(`is damaged (${section})`)
  }
  return page
}
