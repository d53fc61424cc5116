/** JSON Pointers (RFC 6901). */

/** One name of a pointer, with its slash. */
export function pointerPart(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
