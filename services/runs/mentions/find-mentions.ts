/**
 * Finds the agents that a message names. One pass, forward only: messages come from anyone, and no input may take more
 * than its length.
 */

import {
  codeSpans,
  emailEnd,
  isWord,
  isWordAt,
  linkTargetEnd,
  plainParagraphs,
  urlEnd,
  wordEnd,
} from './plain-text.ts'

export interface Mention {
  /** The codename; or the text as written, when no agent has this name. */
  name: string
  /** Written with `@`. */
  at: boolean
}

/** What may be the name of an agent; `@` in front of anything else is no mention. */
const nameShape = /^[A-Za-z][A-Za-z0-9_-]{1,31}$/
/** Distinct names that are reported: the rules let far fewer join. */
const mentionsMax = 64

/**
 * `@name` in any case, and codenames in capitals, as whole words; not in code, quoted lines, addresses and identifiers
 * (WHALE_2, WHALE.ts, src/WHALE, $PULSE). Each name once with `@` and once without, in the order of the text. A name
 * that is none of `names` (codenames) comes only with `@`.
 */
export function findMentions(text: string, names: Iterable<string>): Mention[] {
  const known = new Set(names)
  const found = new Map<string, Mention>()
  for (const { from, to } of plainParagraphs(text)) {
    scan(text, from, to, (start, end, at) => {
      const word = text.slice(start, end)
      const name = at && known.has(word.toUpperCase()) ? word.toUpperCase() : word
      const wanted = at ? nameShape.test(word) : known.has(word)
      if (!wanted || found.size >= mentionsMax) return
      const key = `${at ? '@' : ''}${name}`
      if (!found.has(key)) found.set(key, { name, at })
    })
  }
  return [...found.values()]
}

/** Calls `visit` with each whole word of a paragraph that is no part of code, an address or an identifier. */
function scan(
  text: string,
  from: number,
  to: number,
  visit: (start: number, end: number, at: boolean) => void,
): void {
  const spans = codeSpans(text, from, to)
  /** Up to here it is known that no e-mail address begins. */
  let noEmailBefore = from
  let i = from
  while (i < to) {
    const code = text.charCodeAt(i)
    if (code === backTick) {
      i = spans.get(i) ?? i + 1
    } else if (code === bracket && text.charCodeAt(i + 1) === parenthesis) {
      i = linkTargetEnd(text, i + 2, to)
    } else if (!isWord(text, i)) {
      i++
    } else {
      const address = i < noEmailBefore ? null : emailEnd(text, i, to)
      if (address) {
        noEmailBefore = address.lookedUpTo
        if (address.isEmail) {
          i = address.lookedUpTo
          continue
        }
      }
      const end = wordEnd(text, i, to)
      const url = urlEnd(text, end, to)
      if (url === null) consider(text, i, end, from, to, visit)
      i = url ?? end
    }
  }
}

const backTick = 0x60
const bracket = 0x5d
const parenthesis = 0x28

/** Next to a name these make of it a part of something longer: a path, a variable, a tag. */
const joinedBefore = new Set('/\\$#%=')
const joinedBehind = new Set('/\\$%=')

function consider(
  text: string,
  start: number,
  end: number,
  from: number,
  to: number,
  visit: (start: number, end: number, at: boolean) => void,
): void {
  const behind = text.charAt(end)
  if (end < to) {
    if (joinedBehind.has(behind)) return
    if ((behind === '.' || behind === '-') && isWordAt(text, end + 1, to)) return
    if (behind === ':' && text.charAt(end + 1) === ':') return
  }
  const before = start > from ? text.charAt(start - 1) : ''
  const at = before === '@' || before === '＠'
  const first = at ? start - 1 : start
  if (isPartOfBefore(text, first, from, at)) return
  visit(start, end, at)
}

/** Whether the character in front of a name, or of its `@`, belongs to the same word. */
function isPartOfBefore(text: string, first: number, from: number, at: boolean): boolean {
  if (first === from) return false
  const before = text.charAt(first - 1)
  if (joinedBefore.has(before) || before === '@') return true
  if (before === '{') return first - 2 >= from && text.charAt(first - 2) === '$'
  if (before === ':') return first - 2 >= from && text.charAt(first - 2) === ':'
  if (before === '.' || before === '-') return !at && isWordAt(text, first - 2, text.length, from)
  // Words end where another begins, except in front of an `@`.
  return at && isWordAt(text, first - 1, text.length, from)
}
