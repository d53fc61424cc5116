/** Finds the members of a JSON object in its text, so that an event can be completed without being written again. */

export interface Member {
  name: string
  /** Offset of the name's opening quote. */
  start: number
  /** Offset behind the value's last character. */
  end: number
}

/** `text` must be valid JSON with an object at the top. A name that occurs twice gives two members. */
export function topLevelMembers(text: string): Member[] {
  const members: Member[] = []
  for (let at = nextQuoteOrEnd(text, 0); text[at] === '"'; at = nextQuoteOrEnd(text, members.at(-1)!.end)) {
    const nameEnd = stringEnd(text, at)
    const name = JSON.parse(text.slice(at, nameEnd)) as string
    const colon = text.indexOf(':', nameEnd)
    members.push({ name, start: at, end: valueEnd(text, colon + 1) })
  }
  return members
}

/** Between members there are only spaces, commas and braces. */
function nextQuoteOrEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '"') return at
  return text.length
}

/** From the opening quote at `at` to the offset behind the closing one. */
function stringEnd(text: string, at: number): number {
  for (let i = at + 1; ; i++) {
    const character = text[i]
    if (character === '\\') i++
    else if (character === '"' || character === undefined) return i + 1
  }
}

function valueEnd(text: string, from: number): number {
  let depth = 0
  for (let i = from; i < text.length; i++) {
    const character = text[i]
    if (character === '"') {
      i = stringEnd(text, i) - 1
      if (depth === 0) return i + 1
    } else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      if (depth === 0) return trimmedEnd(text, i)
      if (--depth === 0) return i + 1
    } else if (character === ',' && depth === 0) return trimmedEnd(text, i)
  }
  return text.length
}

function trimmedEnd(text: string, end: number): number {
  let i = end
  while (' \t\r\n'.includes(text[i - 1] as string)) i--
  return i
}
