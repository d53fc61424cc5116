/** Addresses of pages: makes links, and reads ids back out of them. An id is encoded once and decoded once. */

/** Where the console is. */
export const base = '/console'

export type Filters = Readonly<Record<string, string | number>>

/** The address below `base` of a page, of one thing on it by its id, with filters; those that are empty are left out. */
export function linkTo(page: string, id: string | number | null = null, filters: Filters = {}): string {
  const path = id === null ? page : `${page}/${pathPart(withMark(String(id)))}`
  const given = Object.entries(filters).filter(([, value]) => value !== '')
  const query = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))
  return `${path}${searchOf(query)}`
}

/** The id in the path of an address that `linkTo` made; the empty text without an id. */
export function idIn(pathname: string): string {
  const [, , part = ''] = pathname.slice(base.length).split('/')
  return withoutMark(decodedPart(part))
}

/** As it follows the path. */
export function searchOf(query: URLSearchParams): string {
  return query.size === 0 ? '' : `?${query}`
}

/** One part of a path, whatever the text holds. */
export function pathPart(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

/** A part that cannot be decoded was typed by hand, and is taken as it is. */
export function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Browsers fold `.` and `..`, encoded or not: they get a mark, and so does an id that looks like a marked one. */
function withMark(id: string): string {
  return /^~*\.\.?$/.test(id) ? `~${id}` : id
}

function withoutMark(text: string): string {
  return /^~+\.\.?$/.test(text) ? text.slice(1) : text
}
