/** A key in, its entry in the tree of terms out, or all entries whose keys begin so. The kernel walks the pages. */

import { badIndex } from '../fault.ts'
import { termBytesMax, treePageBytes } from '../format.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { IndexFile } from './file.ts'

export interface TreeEntry {
  key: Buffer
  value: Buffer
}

export interface Tree {
  find(key: Buffer): Buffer | null
  /** By rising key; false from `visit` ends it. Meanwhile nothing else may be asked of the tree. */
  visitPrefix(prefix: Buffer, visit: (entry: TreeEntry) => boolean): void
  /** The entry at page << 8 | index. */
  at(place: number): TreeEntry
}

export function createTree(file: IndexFile, kernel: Kernel): Tree {
  const { count, root } = file.header.sections.tree
  /** Number of the page that each place holds, checked. */
  const held = new Map<number, number>()

  /** Begins a walk through the page and returns its level. */
  function open(number: number): number {
    if (number >= count) throw damaged()
    const { place, bytes } = kernel.pagePlace(number)
    const view = Buffer.from(bytes.buffer, bytes.byteOffset, treePageBytes)
    if (held.get(place) !== number) {
      held.delete(place)
      file.read('tree', number * treePageBytes, treePageBytes, bytes)
      if (view.readUInt32LE(0) !== kernel.checksumOf(bytes.subarray(4))) throw damaged()
      held.set(place, number)
    }
    kernel.openPage(place)
    return view.readUInt16LE(6)
  }

  /** Opens the leaf in which the key stands or would stand: each step goes one level down, so there is an end. */
  function openLeaf(key: Buffer): number {
    let number = root
    for (let level = open(root); level > 0; level--) {
      number = kernel.childFor(key)
      if (open(number) !== level - 1) throw damaged()
    }
    return number
  }

  return {
    find(key) {
      if (count === 0 || key.length > termBytesMax) return null
      openLeaf(key)
      return kernel.seek(key) === 'equal' ? kernel.entryValue() : null
    },
    visitPrefix(prefix, visit) {
      if (count === 0 || prefix.length > termBytesMax) return
      let number = openLeaf(prefix)
      let isAtEntry = kernel.seek(prefix) !== 'none'
      while (true) {
        if (!isAtEntry) {
          number++
          if (number >= count || open(number) !== 0) return
          isAtEntry = kernel.nextEntry()
          continue
        }
        const key = kernel.entryKey()
        if (!key.subarray(0, prefix.length).equals(prefix)) return
        if (!visit({ key, value: kernel.entryValue() })) return
        isAtEntry = kernel.nextEntry()
      }
    },
    at(place) {
      if (open(place >>> 8) !== 0 || !kernel.nthEntry(place & 255)) throw damaged()
      return { key: kernel.entryKey(), value: kernel.entryValue() }
    },
  }
}

function damaged(): Error {
  return badIndex('is damaged (tree)')
}
