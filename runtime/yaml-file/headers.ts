/** Reads and checks a map of header names to values. */

import type { Located } from './located-yaml.ts'
import { type FileReading, secretLengthMin } from './reading.ts'

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
/** What one line of a header can carry; no spaces around it. */
const headerValue = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
const headersMax = 64
/** What a request with a body and its connection need; in lower case. */
export const connectionHeaders: readonly string[] = [
  'content-type',
  'content-length',
  'content-encoding',
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
]
const valueLengthMax = 8_192
/** Headers that carry a credential: it is a secret, also where it is written into the file itself. */
const credentialName = /auth|cookie|credential|key|password|secret|token/

/** `reserved`: names in lower case that only the platform may set. Credentials are among `reading.secrets` afterwards. */
export function readHeaders(
  value: Located,
  reading: FileReading,
  reserved: ReadonlySet<string>,
): Record<string, string> {
  if (value.kind !== 'map') {
    reading.fault(value.place, 'must be a map of header names to texts')
    return {}
  }
  if (value.entries.length > headersMax) reading.fault(value.place, `has more than ${headersMax} headers`)
  const headers: [string, string][] = []
  const seen = new Set<string>()
  for (const { name, place, value: given } of value.entries.slice(0, headersMax)) {
    const lower = name.toLowerCase()
    if (!headerName.test(name)) reading.fault(place, 'is not a name that a header can have')
    else if (reserved.has(lower)) reading.fault(place, 'is set by the platform; remove it')
    else if (seen.has(lower)) reading.fault(place, 'appears twice, in another case; remove one')
    else {
      const text = reading.text(given)
      if (text === null) continue
      if (text.length > valueLengthMax || !headerValue.test(text)) {
        reading.fault(
          place,
          `has a value that a header cannot carry: 1 to ${valueLengthMax} printable ASCII characters on one line, without spaces around them (is there a line break at the end of a variable?)`,
        )
      } else {
        headers.push([name, text])
        if (credentialName.test(lower)) for (const secret of secretsOf(text)) reading.secrets.add(secret)
      }
    }
    seen.add(lower)
  }
  return Object.fromEntries(headers)
}

/** A value, and what follows its scheme: `Bearer …`. */
function secretsOf(value: string): string[] {
  return [value, value.split(' ').at(-1) as string].filter(({ length }) => length >= secretLengthMin)
}
