/** Counts in words. */

/** `1 record`, `2 records`. */
export function plural(count: number, one: string): string {
  return `${count} ${one}${count === 1 ? '' : 's'}`
}
