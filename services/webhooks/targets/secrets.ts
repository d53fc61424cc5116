/** Removes secrets from records: those of the targets file and the platform's own keys, before anything is kept as a dead letter. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import type { Schemas } from '#schemas/types.ts'
import { containsSecret, redact } from '#services/access/secrets/redact.ts'
import type { SchemaName, Topic } from '#topics/topic.ts'

interface WithoutSecretsParts<S extends SchemaName> {
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
