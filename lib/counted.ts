/** Counts in words. */

/** `1 record`, `2 records`; `many` where the plural is no -s. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
