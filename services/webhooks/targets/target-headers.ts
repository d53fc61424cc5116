/** Reads and checks the `headers` of a target, and names the headers that only the platform may set. */

import type { Located } from './located-yaml.ts'
import type { TargetReading } from './target-reading.ts'

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/
/** What one line of a header can carry; no spaces around it. */
const headerValue = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
const headersMax = 64
const valueLengthMax = 8_192

/** The courier sets these, or the connection needs them; in lower case. */
export const platformHeaders: ReadonlySet<string> = new Set([
  'x-idempotency-key',
  'x-sequence',
  'x-previous-sequence',
  'x-attempt',
  'x-webhook-replay',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
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
])

export function readHeaders(value: Located, reading: TargetReading): Record<string, string> {
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
    else if (platformHeaders.has(lower)) reading.fault(place, 'is set by the platform; remove it')
    else if (seen.has(lower)) reading.fault(place, 'appears twice, in another case; remove one')
    else {
      const text = reading.text(given)
      if (text === null) continue
      if (text.length > valueLengthMax || !headerValue.test(text)) {
        reading.fault(
          place,
          `has a value that a header cannot carry: 1 to ${valueLengthMax} printable ASCII characters on one line, without spaces around them (is there a line break at the end of a variable?)`,
        )
      } else headers.push([name, text])
    }
    seen.add(lower)
  }
  return Object.fromEntries(headers)
}
