/** Reads one target of the targets file, field by field, and records every fault, not just the first. */

import { isIPv6 } from 'node:net'
import { isLinkLocal, isLoopbackHost } from '#lib/hosts.ts'
import { readHeaders } from '#runtime/yaml-file/headers.ts'
import type { Located, Place } from '#runtime/yaml-file/located-yaml.ts'
import { type FileReading, unknownKey } from '#runtime/yaml-file/reading.ts'
import { eventPart, isWebhookEvent, webhookEvents } from '../event.ts'
import { platformHeaders } from './platform-headers.ts'
import type { WebhookTarget } from './target.ts'

/** Few retries at short intervals: what takes longer is an outage, which has rules of its own. */
export const targetDefaults = { retry: 5, backoffMs: 100, holdHours: 72 } as const

const limits = {
  retry: { min: 0, max: 100, integer: true },
  backoffMs: { min: 1, max: 60_000, integer: true },
  holdHours: { min: 0.01, max: 8_760, integer: false },
  listMax: 1_000,
  signingSecretsMax: 8,
  /** Standard Webhooks: between 24 and 64 bytes. */
  signingBytesMin: 24,
  signingBytesMax: 64,
}

const fieldNames = [
  'url',
  'headers',
  'retry',
  'backoff_ms',
  'events',
  'agents',
  'ordering',
  'on_exhausted',
  'hold_hours',
  'signing_secret',
  'allow_insecure',
] as const

type FieldName = (typeof fieldNames)[number]

/** Null when something of it is at fault. */
export function readTarget(
  name: string,
  place: Place,
  value: Located,
  reading: FileReading,
): WebhookTarget | null {
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
  const ordering = read('ordering', 'target', (given) => reading.choice(given, ['target', 'agent'] as const))
  const onExhausted = read('on_exhausted', 'dead_letter', (given) =>
    reading.choice(given, ['dead_letter', 'hold'] as const),
  )
  if (onExhausted === 'hold' && ordering !== 'target') {
    reading.fault(fields.get('on_exhausted')!.place, 'hold needs ordering: target; leave one of them out')
  }
  const url = readUrl(fields, place, reading)
  const target = {
    name,
    headers: read('headers', {}, (given) => readHeaders(given, reading, platformHeaders)),
    retry: read('retry', targetDefaults.retry, (given) => reading.number(given, limits.retry)),
    backoffMs: read('backoff_ms', targetDefaults.backoffMs, (given) =>
      reading.number(given, limits.backoffMs),
    ),
    events: read('events', null, (given) => readList(given, reading, isWebhookEvent, eventFault)),
    agents: read('agents', null, (given) => readList(given, reading, isAgent, agentFault)),
    ordering,
    onExhausted,
    holdHours: read('hold_hours', targetDefaults.holdHours, (given) =>
      reading.number(given, limits.holdHours),
    ),
    signingSecrets: read('signing_secret', [], (given) => readSigningSecrets(given, reading)),
  }
  return url && { ...target, url }
}

function readUrl(fields: Map<FieldName, Located>, place: Place, reading: FileReading): URL | null {
  const given = fields.get('url')
  const insecure = fields.get('allow_insecure')
  const allowInsecure = insecure === undefined ? false : reading.boolean(insecure)
  if (given === undefined) {
    reading.fault(place, 'has no url; add url: https://host/path')
    return null
  }
  const text = reading.text(given)
  // A faulty allow_insecure is recorded already: no second fault because of it.
  return text === null ? null : checkUrl(text, allowInsecure ?? true, given.place, reading)
}

/** Faults never quote the address: variables may have been filled in. */
function checkUrl(text: string, allowInsecure: boolean, place: Place, reading: FileReading): URL | null {
  const problem = (message: string) => {
    reading.fault(place, message)
    return null
  }
  if (!URL.canParse(text)) return problem('is not a URL: write https://host/path')
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return problem('must begin with https://')
  if (url.username !== '' || url.password !== '') {
    return problem('holds a user or password: put them into an Authorization header')
  }
  if (url.hash !== '') return problem('has a fragment (#), which is never sent; remove it')
  if (isLinkLocal(host)) return problem('is a link-local address, where machines keep their credentials')
  if (url.protocol === 'http:' && !allowInsecure && !isLoopbackHost(isIPv6(host) ? `[${host}]` : host)) {
    return problem(
      'must begin with https://; for plain HTTP in a network of your own add allow_insecure: true',
    )
  }
  return url
}

const eventFault = `must be one of ${webhookEvents.join(', ')}`
const isAgent = (text: string) => eventPart.test(text)
const agentFault = 'must be an agent: 1 to 128 visible ASCII characters'

function readList(
  value: Located,
  reading: FileReading,
  fits: (text: string) => boolean,
  fault: string,
): string[] | null {
  if (value.kind !== 'list' || value.items.length === 0 || value.items.length > limits.listMax) {
    reading.fault(value.place, `must be a list of 1 to ${limits.listMax} texts; leave it out for all`)
    return null
  }
  const texts = value.items.map((item) => {
    const text = reading.plain(item)
    if (text !== null && !fits(text)) reading.fault(item.place, fault)
    return text ?? ''
  })
  return [...new Set(texts)]
}

function readSigningSecrets(value: Located, reading: FileReading): string[] | null {
  const items = value.kind === 'list' ? value.items : [value]
  if (items.length === 0 || items.length > limits.signingSecretsMax) {
    reading.fault(
      value.place,
      `must be one secret, or a list of 1 to ${limits.signingSecretsMax}, the newest first`,
    )
    return null
  }
  return items.flatMap((item) => {
    const text = reading.text(item)
    if (text === null) return []
    const encoded = text.replace(/^whsec_/, '')
    reading.secrets.add(text).add(encoded)
    if (isSigningKey(encoded)) return [text]
    reading.fault(
      item.place,
      `must be whsec_ and the base64 of ${limits.signingBytesMin} to ${limits.signingBytesMax} random bytes (openssl rand -base64 32)`,
    )
    return []
  })
}

function isSigningKey(encoded: string): boolean {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return false
  const { length } = Buffer.from(encoded, 'base64')
  return length >= limits.signingBytesMin && length <= limits.signingBytesMax
}
