/** Where addresses end: URLs, e-mail addresses and the targets of Markdown links. Each place is looked at once. */

import { isWordAt } from './words.ts'

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

export interface Address {
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
