/** Reads one target of the targets file, field by field, and records every fault, not just the first. */

import { isLoopbackHost } from '#lib/hosts.ts'
import { readFields, readUrl, type UrlAsked } from '#runtime/yaml-file/entries.ts'
import { readHeaders } from '#runtime/yaml-file/headers.ts'
import type { Located, Place } from '#runtime/yaml-file/located-yaml.ts'
import type { FileReading } from '#runtime/yaml-file/reading.ts'
import { eventPart, isWebhookEvent, webhookEvents } from '../event.ts'
import { platformHeaders, type WebhookTarget } from './target.ts'

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

/** Null when something of it is at fault. */
export function readTarget(
  name: string,
  place: Place,
  value: Located,
  reading: FileReading,
): WebhookTarget | null {
  const fields = readFields(value, reading, fieldNames)
  if (!fields) return null
  const { read } = fields
  const ordering = read('ordering', 'target', (given) => reading.choice(given, ['target', 'agent'] as const))
  const onExhausted = read('on_exhausted', 'dead_letter', (given) =>
    reading.choice(given, ['dead_letter', 'hold'] as const),
  )
  if (onExhausted === 'hold' && ordering !== 'target') {
    reading.fault(fields.get('on_exhausted')!.place, 'hold needs ordering: target; leave one of them out')
  }
  // A faulty allow_insecure is a fault already: no second one because of it.
  const allowInsecure = read('allow_insecure', false, (given) => reading.boolean(given) ?? true)
  const url = readUrl(fields.get('url'), place, reading, urlAsked(allowInsecure))
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

function urlAsked(allowInsecure: boolean): UrlAsked {
  return {
    example: 'https://host/path',
    schemes: 'must begin with https://',
    problemOf({ protocol, hash, hostname }) {
      if (hash !== '') return 'has a fragment (#), which is never sent; remove it'
      if (protocol === 'https:' || allowInsecure || isLoopbackHost(hostname)) return null
      return 'must begin with https://; for plain HTTP in a network of your own add allow_insecure: true'
    },
  }
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
