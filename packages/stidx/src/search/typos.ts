/** Corrects a word that no record has: to the most frequent word of the index that is one edit away. */

import { crc32 } from '../checksum.ts'
import { correctableMin, deletionsOf, hasDeletions } from '../deletions.ts'
import { surfacePrefix } from '../format.ts'
import { lookUpPairs } from '../reader/pairs.ts'
import { decodeSurfaceCount } from '../reader/terms.ts'
import type { Engine } from './engine.ts'

/** One letter too many, missing, wrong, or two that changed places; of equally frequent words the first by code points. */
export function correctionOf({ file, tree }: Engine, surface: string): string | null {
  if (surface.length <= correctableMin - 1 || !hasDeletions(surface)) return null
  const places = new Set<number>()
  for (const form of deletionsOf(surface)) {
    for (const place of lookUpPairs(file, 'deletions', crc32(form))) places.add(place)
  }
  let best: { word: string; count: number } | null = null
  for (const place of places) {
    const entry = tree.at(place)
    const word = entry.text(surfacePrefix.length)
    const count = decodeSurfaceCount(entry.value())
    if (!isOneEditAway(surface, word)) continue
    if (!best || count > best.count || (count === best.count && word < best.word)) best = { word, count }
  }
  return best?.word ?? null
}

/** Whether one insertion, deletion, replacement or swap of neighbours makes `b` of `a`. */
function isOneEditAway(a: string, b: string): boolean {
  const left = [...a]
  const right = [...b]
  let start = 0
  while (start < left.length && left[start] === right[start]) start++
  let ends = 0
  const most = Math.min(left.length, right.length) - start
  while (ends < most && left[left.length - 1 - ends] === right[right.length - 1 - ends]) ends++
  const ofLeft = left.slice(start, left.length - ends)
  const ofRight = right.slice(start, right.length - ends)
  if (ofLeft.length <= 1 && ofRight.length <= 1) return ofLeft.length + ofRight.length > 0
  return ofLeft.length === 2 && ofRight.length === 2 && ofLeft[0] === ofRight[1] && ofLeft[1] === ofRight[0]
}
