/** Reads one node of the nodes file, field by field, and records every fault, not just the first. */

import { isLinkLocal } from '#lib/hosts.ts'
import { readHeaders } from '#runtime/yaml-file/headers.ts'
import type { Located, Place } from '#runtime/yaml-file/located-yaml.ts'
import { type FileReading, unknownKey } from '#runtime/yaml-file/reading.ts'
import type { RunNode } from './types.ts'

const nodeDefaults = { timeoutMs: 300_000, concurrency: 16 } as const

const limits = {
  timeoutMs: { min: 1_000, max: 300_000, integer: true },
  concurrency: { min: 1, max: 1_000, integer: true },
  roleLengthMax: 200,
  appLengthMax: 128,
}

/** What `@name` and the bare word in a message can be. */
const codenamePattern = /^[A-Z][A-Z0-9_]{1,31}$/

const fieldNames = ['codename', 'role', 'url', 'app', 'headers', 'timeout_ms', 'concurrency'] as const

type FieldName = (typeof fieldNames)[number]

/** The platform sets these, or the connection needs them; in lower case. */
const platformHeaders: ReadonlySet<string> = new Set([
  'accept',
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

/** Null when something of it is at fault. */
export function readNode(slug: string, place: Place, value: Located, reading: FileReading): RunNode | null {
  if (value.kind !== 'map') {
    reading.fault(value.place, 'must be a map with at least a url')
    return null
  }
  const fields = new Map<FieldName, Located>()
  for (const entry of value.entries) {
    if ((fieldNames as readonly string[]).includes(entry.name))
      fields.set(entry.name as FieldName, entry.value)
    else reading.fault(entry.place, unknownKey(entry.name, fieldNames))
  }
  const read = <T>(field: FieldName, otherwise: T, reader: (given: Located) => T | null): T => {
    const given = fields.get(field)
    return given === undefined ? otherwise : (reader(given) ?? otherwise)
  }
  const url = readUrl(fields.get('url'), place, reading)
  const codename = readCodename(fields.get('codename'), slug, place, reading)
  const node = {
    slug,
    codename,
    role: read('role', '', (given) => readText(given, limits.roleLengthMax, reading)),
    app: read<string>('app', slug, (given) => readText(given, limits.appLengthMax, reading)),
    headers: read('headers', {}, (given) => readHeaders(given, reading, platformHeaders)),
    timeoutMs: read<number>('timeout_ms', nodeDefaults.timeoutMs, (given) =>
      reading.number(given, limits.timeoutMs),
    ),
    concurrency: read<number>('concurrency', nodeDefaults.concurrency, (given) =>
      reading.number(given, limits.concurrency),
    ),
  }
  return url === null ? null : { ...node, url }
}

function readCodename(given: Located | undefined, slug: string, place: Place, reading: FileReading): string {
  const codename = given ? reading.plain(given) : slug.toUpperCase().replaceAll('-', '_')
  if (codename !== null && !codenamePattern.test(codename)) {
    reading.fault(
      given?.place ?? place,
      given
        ? 'is not a codename: 2 to 32 capitals, digits or underscores, beginning with a letter'
        : 'needs a codename: 2 to 32 capitals, digits or underscores, beginning with a letter',
    )
  }
  return codename ?? ''
}

function readText(given: Located, lengthMax: number, reading: FileReading): string | null {
  const text = reading.plain(given)
  if (text === null || text.length <= lengthMax) return text
  reading.fault(given.place, `must have at most ${lengthMax} characters`)
  return null
}

/** Without a slash at its end. Faults never quote the address: variables may have been filled in. */
function readUrl(given: Located | undefined, place: Place, reading: FileReading): string | null {
  if (given === undefined) {
    reading.fault(place, 'has no url; add url: http://host:port')
    return null
  }
  const text = reading.text(given)
  if (text === null) return null
  const problem = urlProblem(text)
  if (problem !== null) {
    reading.fault(given.place, problem)
    return null
  }
  return new URL(text).href.replace(/\/+$/, '')
}

function urlProblem(text: string): string | null {
  if (!URL.canParse(text)) return 'is not a URL: write http://host:port'
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with http:// or https://'
  if (url.username !== '' || url.password !== '') {
    return 'holds a user or password: put them into an Authorization header'
  }
  if (url.search !== '' || url.hash !== '') {
    return 'has a query (?) or fragment (#): write what comes before /run_sse'
  }
  if (isLinkLocal(url.hostname.replace(/^\[|\]$/g, ''))) {
    return 'is a link-local address, where machines keep their credentials'
  }
  return null
}
