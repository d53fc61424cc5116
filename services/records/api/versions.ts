/** Versions as entity tags: what an answer has as ETag, and what If-Match accepts. */

export function etagOf(version: number): string {
  return `"${version}"`
}

/**
 * What the header accepts; undefined where there is none. Tags are compared strongly (RFC 9110 §13.1.1), so that a weak one
 * never fits.
 */
export function versionCheck(ifMatch: string | undefined): ((version: number) => boolean) | undefined {
  if (ifMatch === undefined) return undefined
  if (ifMatch.trim() === '*') return () => true
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  return (version) => tags.includes(etagOf(version))
}
