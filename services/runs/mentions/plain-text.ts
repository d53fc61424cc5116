/** What of a Markdown text its writer says: without quoted lines, fenced code and code spans; and where words and addresses in it end. Each place is looked at once. */

interface Range {
  from: number
  to: number
}

/** Paragraphs, without quoted lines and fenced code. A fence that is never closed reaches to the end. */
export function* plainParagraphs(text: string): Generator<Range> {
  let fence: Fence | null = null
  let from = -1
  for (let line = 0; line < text.length; ) {
    const end = lineEnd(text, line)
    const first = contentStart(text, line, end)
    const opened: Fence | null = fence === null ? fenceAt(text, first, end) : null
    const isPlain = fence === null && opened === null && first < end && text.charCodeAt(first) !== quote
    if (isPlain && from < 0) from = line
    if (!isPlain && from >= 0) {
      yield { from, to: line }
      from = -1
    }
    if (fence === null) fence = opened
    else if (closes(fence, text, first, end)) fence = null
    line = end + 1
  }
  if (from >= 0) yield { from, to: text.length }
}

/** Where the code spans of a paragraph begin, and where each ends. A span ends with as many back-ticks as it began with. */
export function codeSpans(text: string, from: number, to: number): Map<number, number> {
  const runs: { start: number; length: number; next: number }[] = []
  for (let i = nextBackTick(text, from, to); i < to; i = nextBackTick(text, i, to)) {
    const length = countOf(text, backTick, i, to)
    runs.push({ start: i, length, next: -1 })
    i += length
  }
  // From the end, so that each run knows the next of its length without a search.
  const lastOfLength = new Map<number, number>()
  for (let n = runs.length - 1; n >= 0; n--) {
    const run = runs[n]!
    run.next = lastOfLength.get(run.length) ?? -1
    lastOfLength.set(run.length, n)
  }
  const spans = new Map<number, number>()
  for (let n = 0; n < runs.length; n++) {
    const { start, length, next } = runs[n]!
    // A run that nothing closes is text, in its whole length.
    spans.set(start, next < 0 ? start + length : runs[next]!.start + length)
    if (next >= 0) n = next
  }
  return spans
}

interface Fence {
  mark: number
  length: number
}

const backTick = 0x60
const tilde = 0x7e
const quote = 0x3e

function fenceAt(text: string, first: number, end: number): Fence | null {
  const mark = text.charCodeAt(first)
  if (first >= end || (mark !== backTick && mark !== tilde)) return null
  const length = countOf(text, mark, first, end)
  if (length < 3) return null
  // Three back-ticks with more of them in the same line are a code span.
  const again = mark === backTick && nextBackTick(text, first + length, end) < end
  return again ? null : { mark, length }
}

function closes({ mark, length }: Fence, text: string, first: number, end: number): boolean {
  const count = countOf(text, mark, first, end)
  return count >= length && firstVisible(text, first + count, end) === end
}

function countOf(text: string, mark: number, first: number, end: number): number {
  let i = first
  while (i < end && text.charCodeAt(i) === mark) i++
  return i - first
}

/** `to` when there is none. Never looks further: a search to the end of the text for each line would take its square. */
function nextBackTick(text: string, from: number, to: number): number {
  let i = from
  while (i < to && text.charCodeAt(i) !== backTick) i++
  return i
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

function firstVisible(text: string, from: number, end: number): number {
  let i = from
  while (i < end && text.charCodeAt(i) <= 0x20) i++
  return i
}

/** Behind the spaces and the mark of a list item. */
function contentStart(text: string, from: number, end: number): number {
  const first = firstVisible(text, from, end)
  let i = first
  while (i < end && isDigit(text.charCodeAt(i))) i++
  const marks = i > first ? '.)' : '-*+'
  if (i < end && marks.includes(text.charAt(i)) && text.charCodeAt(i + 1) === 0x20) {
    return firstVisible(text, i + 1, end)
  }
  return first
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

const anyWord = /^[\p{L}\p{N}\p{M}_]$/u
const withoutSpaces =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\u30fc]$/u

/** As `isWord`, for a place that may lie outside of the text; it may be the second half of a pair. */
export function isWordAt(text: string, index: number, to: number, from = 0): boolean {
  if (index < from || index >= to) return false
  const isSecondHalf = (text.charCodeAt(index) & 0xfc00) === 0xdc00
  return isWord(text, isSecondHalf && index > from ? index - 1 : index)
}

/** Where the word that begins at `start` ends. */
export function wordEnd(text: string, start: number, to: number): number {
  let end = start
  while (end < to && isWord(text, end)) end += text.codePointAt(end)! > 0xffff ? 2 : 1
  return end
}

/** Whether a word begins at, or goes on with, the character there. */
export function isWord(text: string, index: number): boolean {
  const code = text.charCodeAt(index)
  if (code < 0x80) {
    return (
      (code >= 0x61 && code <= 0x7a) ||
      (code >= 0x41 && code <= 0x5a) ||
      (code >= 0x30 && code <= 0x39) ||
      code === 0x5f
    )
  }
  const character = String.fromCodePoint(text.codePointAt(index)!)
  return anyWord.test(character) && !withoutSpaces.test(character)
}

/** When `://` is at `index`, the end of the URL; else null. */
export function urlEnd(text: string, index: number, to: number): number | null {
  if (!text.startsWith('://', index)) return null
  let end = index + 3
  while (end < to && isUrlCharacter(text.charCodeAt(end))) end++
  return end
}

/** The end of a link's target whose `](` is in front of `index`. */
export function linkTargetEnd(text: string, index: number, to: number): number {
  let end = index
  while (end < to) {
    const code = text.charCodeAt(end)
    if (code <= 0x20) return end
    end++
    if (code === 0x29) return end
  }
  return end
}

interface Address {
  isEmail: boolean
  /** The end of the address, or the place up to which none begins. */
  lookedUpTo: number
}

/** Looks from the beginning of a word whether it begins an e-mail address. */
export function emailEnd(text: string, start: number, to: number): Address {
  const end = atomsEnd(text, start, to)
  const closed = text.charCodeAt(end - 1) !== 0x2e
  const isEmail = end < to && text.charAt(end) === '@' && closed && isWordAt(text, end + 1, to)
  return { isEmail, lookedUpTo: isEmail ? atomsEnd(text, end + 1, to) : end }
}

/** Visible ASCII except `"`, `<`, `>` and the back-tick; what else is in a URL is percent-encoded. */
function isUrlCharacter(code: number): boolean {
  return code > 0x20 && code < 0x7f && code !== 0x22 && code !== 0x3c && code !== 0x3e && code !== 0x60
}

/** The end of the letters, digits and `.`, `_`, `%`, `+`, `-` from here on. */
function atomsEnd(text: string, start: number, to: number): number {
  let end = start
  while (end < to && isAtom(text.charCodeAt(end))) end++
  return end
}

function isAtom(code: number): boolean {
  return (
    (code >= 0x61 && code <= 0x7a) ||
    (code >= 0x41 && code <= 0x5a) ||
    (code >= 0x30 && code <= 0x39) ||
    code === 0x2e ||
    code === 0x5f ||
    code === 0x25 ||
    code === 0x2b ||
    code === 0x2d
  )
}
