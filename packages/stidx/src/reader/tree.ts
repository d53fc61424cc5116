/** The tree of terms: finds the entry of a key, all entries whose keys begin alike, or the entry at a known place. */

import { badIndex } from '../fault.ts'
import { termBytesMax, treePageBytes } from '../format.ts'
import type { IndexFile } from './file.ts'
import { PageWalk } from './page.ts'

/** Pages that are kept once they were read. */
const pagesKeptMax = 256

/** The entry that was reached; valid until the next one. */
export type TreeEntry = Pick<PageWalk, 'text' | 'value'>

export interface Tree {
  find(key: Buffer): Buffer | null
  /** By rising key; false from `visit` ends it. Meanwhile nothing else may be asked of the tree. */
  visitPrefix(prefix: Buffer, visit: (entry: TreeEntry) => boolean): void
  /** The entry at page << 8 | index. */
  at(place: number): TreeEntry
}

export function createTree(file: IndexFile, section: 'tree' | 'beginnings' = 'tree'): Tree {
  const { count, root } = file.header.sections[section]
  /** Pages by their numbers, their checksums checked. */
  const kept = new Map<number, Buffer>()
  const walk = new PageWalk()

  function read(number: number): Buffer {
    if (number >= count) throw damaged()
    const page = file.read(section, number * treePageBytes, treePageBytes)
    if (!file.isSound(page.subarray(4), page.readUInt32LE(0), section, number)) throw damaged()
    if (kept.size >= pagesKeptMax) kept.clear()
    kept.set(number, page)
    return page
  }

  /** Begins a walk through the page and returns its level. */
  function open(number: number): number {
    const page = kept.get(number) ?? read(number)
    walk.open(page)
    return page.readUInt16LE(6)
  }

  /** Opens the leaf in which the key is, if it is anywhere: each step goes one level down, so there is an end. */
  function openLeaf(key: Buffer): number {
    let number = root
    for (let level = open(root); level > 0; level--) {
      number = walk.childFor(key)
      if (number === -1 || open(number) !== level - 1) throw damaged()
    }
    return number
  }

  return {
    find(key) {
      if (count === 0 || key.length > termBytesMax) return null
      openLeaf(key)
      return walk.seek(key) === 'equal' ? walk.value() : null
    },
    visitPrefix(prefix, visit) {
      if (count === 0 || prefix.length > termBytesMax) return
      let number = openLeaf(prefix)
      let isAtEntry = walk.seek(prefix) !== 'none'
      while (true) {
        if (!isAtEntry) {
          number++
          if (number >= count || open(number) !== 0) return
          isAtEntry = walk.next()
          continue
        }
        if (!walk.beginsWith(prefix) || !visit(walk)) return
        isAtEntry = walk.next()
      }
    },
    at(place) {
      if (open(place >>> 8) !== 0 || !walk.skipTo(place & 255)) throw damaged()
      return walk
    },
  }
}

function damaged(): Error {
  return badIndex('is damaged (tree)')
}
