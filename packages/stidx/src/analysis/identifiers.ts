/** Splits names as programmers write them into their parts: `getUserName`, `user_name`, `HTTPServer`. */

/** The parts in lower case, or nothing where the word is of one piece. Takes ASCII letters, digits and underscores. */
export function identifierParts(word: string): string[] {
  const parts: string[] = []
  let start = 0
  for (let i = 1; i < word.length; i++) {
    if (!beginsPart(word, i)) continue
    add(parts, word.slice(start, i))
    start = i
  }
  if (start === 0 && !word.includes('_')) return parts
  add(parts, word.slice(start))
  return parts
}

function beginsPart(word: string, at: number): boolean {
  const code = word.charCodeAt(at)
  if (word.charCodeAt(at - 1) === 95) return true
  if (!isUpper(code)) return false
  if (!isUpper(word.charCodeAt(at - 1))) return true
  // The last capital of a row belongs to the word that follows; one small letter is a plural, as in GPUs.
  return isLower(word.charCodeAt(at + 1)) && isLower(word.charCodeAt(at + 2))
}

function add(parts: string[], part: string): void {
  const bare = part.endsWith('_') ? part.slice(0, -1) : part
  if (bare !== '') parts.push(bare.toLowerCase())
}

function isUpper(code: number): boolean {
  return code >= 65 && code <= 90
}

function isLower(code: number): boolean {
  return code >= 97 && code <= 122
}
