/** Finds the name that somebody probably meant when they mistyped one, so that an error can suggest it. */

const lengthMax = 64

/** The name within two typing errors of `typed` (case aside), or null. */
export function nearestName(typed: string, names: readonly string[]): string | null {
  if (typed.length > lengthMax) return null
  const wanted = typed.toLowerCase()
  let best: { name: string; distance: number } | null = null
  for (const name of names) {
    const distance = distanceOf(wanted, name.toLowerCase())
    const most = Math.min(2, Math.floor(name.length / 2))
    if (distance <= most && (best === null || distance < best.distance)) best = { name, distance }
  }
  return best?.name ?? null
}

/**
 * Insertions, deletions and replacements between two texts (Levenshtein). A package would save these lines and nothing
 * else; the suggestions of commander are private to it.
 */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, replaced))
    }
    row = next
  }
  return row[b.length]!
}
