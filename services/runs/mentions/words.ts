/** What a word is: letters, digits and marks. Scripts that are written without spaces do not extend a Latin word. */

const anyWord = /^[\p{L}\p{N}\p{M}_]$/u
const withoutSpaces =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\u30fc]$/u

/** Whether a word begins at, or goes on with, the character there. */
export function wordStartsAt(text: string, index: number): boolean {
  return isWord(text, index)
}

/** As `wordStartsAt`, for a place that may lie outside of the text; it may be the second half of a pair. */
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

function isWord(text: string, index: number): boolean {
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
