/** Point ids in, what is wrong with them out. */

const idCodePointsMax = 512

/** A string of 1 to 512 code points without NUL; undefined when it is one. */
export function pointIdFault(id: unknown): string | undefined {
  if (typeof id !== 'string') return 'must be a string'
  if (id === '') return 'must not be empty'
  if (id.length > idCodePointsMax && isTooLong(id)) return `must have at most ${idCodePointsMax} characters`
  if (id.includes('\0')) return 'must not contain NUL'
  if (!id.isWellFormed()) return 'has half of a surrogate pair'
  return undefined
}

/** Counts code points without making an array of a text that may be huge. */
function isTooLong(id: string): boolean {
  if (id.length > 2 * idCodePointsMax) return true
  let codePoints = 0
  for (const _ of id) codePoints += 1
  return codePoints > idCodePointsMax
}
