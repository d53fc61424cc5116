/** Finds where the words of a text end. */

import { classOf, separator } from './character-classes.ts'
import { isAsciiWordCode } from './word-terms.ts'

/** The end of the run of word characters that begins here; `at` itself where none does. */
export function wordEnd(text: string, at: number): number {
  let end = at
  while (end < text.length) {
    const code = text.charCodeAt(end)
    if (code < 0x80) {
      if (!isAsciiWordCode(code)) break
      end++
    } else {
      const point = text.codePointAt(end)!
      if (classOf(point) === separator) break
      end += point > 0xffff ? 2 : 1
    }
  }
  return end
}

/** An apostrophe and s after a word are no word of their own. */
export function afterPossessive(text: string, at: number): number {
  const mark = text.charCodeAt(at)
  if (mark !== 0x27 && mark !== 0x2019) return at
  const s = text.charCodeAt(at + 1)
  return (s === 0x73 || s === 0x53) && wordEnd(text, at + 1) === at + 2 ? at + 2 : at
}
