/** What the audit may keep of a change: without secrets, within a bound, in text that the database takes. */

import { platformKeys } from '../secrets/platform-keys.ts'

const cut = '[cut]'
const jsonLengthMax = 16_384
/** Members that hold a secret, whatever their value looks like. */
const secretNames = /password|secret|private_?key|pem$|token|credential|cookie/i
const idToken = /eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g

/** JSON of `before` or `after`; null for nothing. */
export function detailsOf(value: unknown): string | null {
  if (value === undefined || value === null) return null
  const json = JSON.stringify(value, (name, member: unknown) => {
    if (name !== '' && secretNames.test(name) && member !== null && typeof member !== 'boolean') return cut
    return typeof member === 'string' ? withoutKeys(storable(member)) : member
  })
  if (json === undefined) return null
  return json.length > jsonLengthMax ? JSON.stringify({ cut: true, length: json.length }) : json
}

/** One line of text, cut to `max` characters, without keys of the platform. */
export function plainText(text: string, max: number): string {
  return withoutKeys(storable(text)).slice(0, max).toWellFormed()
}

/** The database takes neither NUL nor half a surrogate pair. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD')
}

function withoutKeys(text: string): string {
  return text.replace(platformKeys, cut).replace(idToken, cut)
}
