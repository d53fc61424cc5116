/** Finds where the words of a text end. */

import { apostrophes, classOf, pictograph, separator } from './character-classes.ts'
import { isAsciiWordCode } from './word-terms.ts'

const hash = 0x23
const plus = 0x2b
const blackFlag = 0x1f3f4

/**
 * The end of the word that begins at `at`, or `at` itself where none does. A word is a run of word characters, with the
 * sign of a name behind it, or one pictograph. Up to `from` it is known to be a run of ASCII.
 */
export function wordEnd(text: string, at: number, from = at): number {
  let end = from
  let isAscii = true
  while (end < text.length) {
    const code = text.charCodeAt(end)
    if (code < 0x80) {
      if (!isAsciiWordCode(code)) return isAscii && end > at ? signEnd(text, end) : end
      end++
    } else {
      const point = text.codePointAt(end)!
      const kind = classOf(point)
      if (kind === separator) break
      if (kind === pictograph) return end > at ? end : pictographEnd(text, end)
      end += point > 0xffff ? 2 : 1
      isAscii = false
    }
  }
  return end
}

/** The end of the sign behind an ASCII name, as in C++, C# and Disney+; `at` itself in `a+b` and `issue#5`. */
export function signEnd(text: string, at: number): number {
  const sign = text.charCodeAt(at)
  if (sign !== plus && sign !== hash) return at
  const isDouble = sign === plus && text.charCodeAt(at + 1) === plus
  const end = isDouble ? at + 2 : at + 1
  const next = text.charCodeAt(end)
  if (next === plus || next === hash) return at
  // The year of a standard may follow: C++20.
  const mayFollow = !isAsciiWordCode(next) || (isDouble && next >= 0x30 && next <= 0x39)
  return mayFollow ? end : at
}

/** Whether the term is a name with its sign. */
export function hasSign(term: string): boolean {
  const last = term.charCodeAt(term.length - 1)
  return last === plus || last === hash
}

/** Two regional letters are one flag, and so is a black flag with the tags of its region. */
function pictographEnd(text: string, at: number): number {
  const point = text.codePointAt(at)!
  let end = at + (point > 0xffff ? 2 : 1)
  if (isRegional(point) && isRegional(text.codePointAt(end))) return end + 2
  if (point === blackFlag) while (isTag(text.codePointAt(end))) end += 2
  return end
}

function isRegional(point = 0): boolean {
  return point >= 0x1f1e6 && point <= 0x1f1ff
}

function isTag(point = 0): boolean {
  return point >= 0xe0020 && point <= 0xe007f
}

/** An apostrophe and s after a word are no word of their own. */
export function afterPossessive(text: string, at: number): number {
  if (!apostrophes.has(text.charCodeAt(at))) return at
  const s = text.charCodeAt(at + 1)
  return (s === 0x73 || s === 0x53) && wordEnd(text, at + 1) === at + 2 ? at + 2 : at
}
