/** Loads the Avro schemas of a folder and the file of their published versions. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** One version of a subject as it was published: its number travels with every record. */
interface PublishedVersion {
  id: number
  schema: unknown
}

/** Subject → its versions, oldest first. Equal schemas share an id, whatever the subject. */
export type PublishedSchemas = Record<string, PublishedVersion[]>

export const publishedFileName = 'published.json'

/** Name (without .avsc) → the schema as one line of JSON. Throws an Error that names a file which is not JSON. */
export function loadSchemas(directory: string): Map<string, string> {
  const schemas = new Map<string, string>()
  for (const file of readdirSync(directory).sort()) {
    if (!file.endsWith('.avsc')) continue
    const text = readFileSync(join(directory, file), 'utf8')
    schemas.set(file.slice(0, -'.avsc'.length), canonicalSchema(text, file))
  }
  return schemas
}

/** Reads the published versions; an absent file means that nothing was published yet. */
export function loadPublished(directory: string): PublishedSchemas {
  let text: string
  try {
    text = readFileSync(join(directory, publishedFileName), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
  }
  return JSON.parse(text) as PublishedSchemas
}

/** Schemas that differ in spacing alone have the same text. */
export function canonicalSchema(text: string, what = 'the schema'): string {
  try {
    return JSON.stringify(JSON.parse(text))
  } catch {
    throw new Error(`${what} is not JSON`)
  }
}
