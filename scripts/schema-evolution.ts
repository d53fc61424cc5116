/**
 * Works out the next published.json from the catalogue and the schema files; refuses changes that old records would
 * not survive.
 */

import type { PublishedSchemas } from '#lib/schema-files.ts'
import { parseAvro } from '#runtime/publish/codec.ts'

export interface SubjectSchema {
  subject: string
  /** Canonical JSON text. */
  schema: string
  /** Other systems read it, with schemas of any version. */
  public?: boolean
}

/**
 * One sentence for each version that was published and whose records the subject's schema cannot read; of public subjects
 * also for each version that could not read new records. All versions count, not the last alone: a compacted topic keeps
 * records of the first version for as long as their keys live, and a reader elsewhere may be as old.
 */
export function findIncompatible(published: PublishedSchemas, current: SubjectSchema[]): string[] {
  return current.flatMap(({ subject, schema, public: isPublic }) =>
    (published[subject] ?? []).flatMap((version) => {
      const earlier = JSON.stringify(version.schema)
      const backward = whyUnreadable(schema, earlier)
      const forward = isPublic ? whyUnreadable(earlier, schema) : null
      return [
        ...(backward ? [`${subject}: records of version ${version.id} could not be read: ${backward}`] : []),
        ...(forward ? [`${subject}: readers with version ${version.id} could not read it: ${forward}`] : []),
      ]
    }),
  )
}

/** Subjects whose present schema is not their last published one. */
export function findUnpublished(published: PublishedSchemas, current: SubjectSchema[]): string[] {
  return current
    .filter(({ subject, schema }) => JSON.stringify(published[subject]?.at(-1)?.schema) !== schema)
    .map(({ subject }) => subject)
}

/** The published schemas with every unpublished one added; equal schemas share an id. */
export function publish(published: PublishedSchemas, current: SubjectSchema[]): PublishedSchemas {
  const ids = new Map<string, number>()
  for (const { id, schema } of Object.values(published).flat()) ids.set(JSON.stringify(schema), id)
  const next = structuredClone(published)
  const missing = new Set(findUnpublished(published, current))
  for (const { subject, schema } of current) {
    if (!missing.has(subject)) continue
    const id = ids.get(schema) ?? Math.max(0, ...ids.values()) + 1
    ids.set(schema, id)
    next[subject] = [...(next[subject] ?? []), { id, schema: JSON.parse(schema) }]
  }
  return next
}

/** Null when `reader` can read whatever `writer` wrote. */
function whyUnreadable(reader: string, writer: string): string | null {
  try {
    parseAvro(reader).createResolver(parseAvro(writer))
    return null
  } catch (error) {
    return (error as Error).message
  }
}
