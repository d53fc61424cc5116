/** Texts as parts of a path: of a URL, or of a JSON Pointer (RFC 6901). */

/**
 * One part: whatever the text holds, it does not end there. `.` and `..` come out as `%2E`, which most readers of URLs fold
 * as they do dots: send such a path as it is, or refuse these two before.
 */
export function pathPart(text: string): string {
  const part = encodeURIComponent(text.toWellFormed())
  return part === '.' || part === '..' ? part.replaceAll('.', '%2E') : part
}

/** One name of a pointer, with its slash. */
export function pointerPart(name: string | number): string {
  return `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
