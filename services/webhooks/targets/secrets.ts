/**
 * Finds and removes secrets: those of the targets file and the platform's own keys. Used before anything of an event is
 * logged, answered or kept as a dead letter.
 */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Codec } from '#runtime/messages.ts'
import type { Schemas } from '#schemas/types.ts'
import { platformKeys } from '#services/identity/secrets/platform-keys.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'

/** Shown in place of a secret. */
const cut = '[cut]'
/** A text may be escaped inside a text that is escaped: escapes are undone this often. */
const unescapesMax = 3

/** True when the text, as it is or with its JSON or percent escapes undone, holds one of `secrets` or a key of the platform. */
export function containsSecret(text: string, secrets: readonly string[]): boolean {
  const tried = new Set<string>()
  let forms = [text]
  for (let n = 0; n <= unescapesMax && forms.length > 0; n++) {
    for (const form of forms) {
      if (holds(form, secrets)) return true
      tried.add(form)
    }
    // Each kind by itself: a secret may hold what looks like an escape of the other one.
    const plainer = forms.flatMap((form) => [withoutBackslashes(form), withoutPercents(form)])
    forms = [...new Set(plainer)].filter((form) => !tried.has(form))
  }
  return false
}

/** The text with every secret cut out, also where it is written with JSON or percent escapes. */
export function redact(text: string, secrets: readonly string[]): string {
  let clean = text.replace(platformKeys, cut)
  const longestFirst = [...secrets].sort((a, b) => b.length - a.length)
  for (const secret of longestFirst) {
    const escaped = JSON.stringify(secret).slice(1, -1)
    for (const form of new Set([secret, escaped, encodeURIComponent(secret.toWellFormed())])) {
      clean = clean.replaceAll(form, cut)
    }
  }
  // A secret behind other escapes cannot be cut out by itself.
  return containsSecret(clean, secrets) ? cut : clean
}

function holds(text: string, secrets: readonly string[]): boolean {
  platformKeys.lastIndex = 0
  return platformKeys.test(text) || secrets.some((secret) => text.includes(secret))
}

const simpleEscapes: Record<string, string> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

function withoutBackslashes(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|([\s\S]))/g, (_, code?: string, character?: string) =>
    code === undefined
      ? (simpleEscapes[character as string] ?? (character as string))
      : String.fromCharCode(Number.parseInt(code, 16)),
  )
}

function withoutPercents(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/(?:%[0-9a-fA-F]{2})+/g, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString(),
  )
}

export interface WithoutSecretsParts<S extends SchemaName> {
  codec: Codec
  topic: Topic<S>
  /** Those of now: the targets file may have changed since the record was written. */
  secrets(): readonly string[]
}

/**
 * For a consumer's `keptOf`. Texts of the record lose their secrets; a record that holds one and cannot be read loses
 * its value.
 */
export function withoutSecrets<S extends SchemaName>({ codec, topic, secrets }: WithoutSecretsParts<S>) {
  return async (record: StoredRecord): Promise<StoredRecord> => {
    const now = secrets()
    const clean = (text: string) => redact(text, now)
    if (!mayHold(record, now)) return record
    const { partition, offset, timestamp, key, value } = record
    const headers = Object.fromEntries(
      Object.entries(record.headers).map(([name, text]) => [name, clean(text)]),
    )
    return {
      partition,
      offset,
      timestamp,
      key: key && Buffer.from(clean(key.toString('utf8'))),
      value: value && (await cleanValue(record)),
      headers,
    }

    async function cleanValue(whole: StoredRecord): Promise<Buffer | null> {
      const decoded = await decode(whole)
      if (decoded === null) return null
      const fields = Object.entries(decoded).map(([name, field]) => [name, cleanField(field, clean)])
      return codec.encode(topic, Object.fromEntries(fields) as Schemas[S])
    }
  }

  async function decode(record: StoredRecord): Promise<object | null> {
    try {
      return (await codec.decode(topic, record)).value as object | null
    } catch (error) {
      // The registry is away: the caller tries again.
      if ((error as { code?: unknown }).code === 'registry_unavailable') throw error
      return null
    }
  }
}

/** Avro keeps texts as they are, so the bytes can be searched. */
function mayHold({ key, value, headers }: StoredRecord, secrets: readonly string[]): boolean {
  const texts = [key, value].map((bytes) => bytes?.toString('utf8') ?? '')
  return [...texts, ...Object.values(headers)].some((text) => containsSecret(text, secrets))
}

function cleanField(field: unknown, clean: (text: string) => string): unknown {
  if (typeof field === 'string') return clean(field)
  return Buffer.isBuffer(field) ? Buffer.from(clean(field.toString('utf8'))) : field
}
