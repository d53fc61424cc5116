/** Ids as parts of a path. */

/** Throws TypeError for what cannot be one part of a URL's path: nothing, and dots that lead elsewhere. */
export function pathPart(id: string | number): string {
  const part = encodeURIComponent(id)
  if (part === '' || part === '.' || part === '..') throw new TypeError(`${JSON.stringify(id)} is no id`)
  return part
}
