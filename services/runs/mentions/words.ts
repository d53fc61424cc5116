/** What a word is, and where addresses end: URLs, e-mail addresses and the targets of Markdown links. Each place is looked at once. */

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
