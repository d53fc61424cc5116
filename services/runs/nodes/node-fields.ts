/** Reads one node of the nodes file, field by field, and records every fault, not just the first. */

import { readFields, readUrl, type UrlAsked } from '#runtime/yaml-file/entries.ts'
import { connectionHeaders, readHeaders } from '#runtime/yaml-file/headers.ts'
import type { Located, Place } from '#runtime/yaml-file/located-yaml.ts'
import type { FileReading } from '#runtime/yaml-file/reading.ts'
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

const urlAsked: UrlAsked = {
  example: 'http://host:port',
  schemes: 'must begin with http:// or https://',
  problemOf: ({ search, hash }) =>
    search === '' && hash === '' ? null : 'has a query (?) or fragment (#): write what comes before /run_sse',
}

/** The platform sets these, or the connection needs them. */
const platformHeaders: ReadonlySet<string> = new Set([...connectionHeaders, 'accept'])

/** Null when something of it is at fault. */
export function readNode(slug: string, place: Place, value: Located, reading: FileReading): RunNode | null {
  const fields = readFields(value, reading, fieldNames)
  if (!fields) return null
  const { read } = fields
  const url = readUrl(fields.get('url'), place, reading, urlAsked)
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
  return url && { ...node, url: url.href.replace(/\/+$/, '') }
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
