/** The schema registry of a single installation: subjects and ids come from the committed file of published schemas. */

import { AppError } from '#lib/errors.ts'
import {
  canonicalSchema,
  loadPublished,
  type PublishedSchemas,
  publishedFileName,
} from '#lib/schema-files.ts'
import type { SchemaRegistry } from './port.ts'

/**
 * Opens the registry over `directory/published.json`. Nothing is ever written: a schema that was not published is
 * refused, so that ids are the same in every installation and survive a lost data directory.
 * Throws AppError `invalid_configuration` when the file is damaged.
 */
export async function openFolderRegistry(options: { directory: string }): Promise<SchemaRegistry> {
  const { ids, schemas } = indexPublished(readPublished(options.directory))
  return {
    driver: 'folder',
    async register(subject, schema) {
      const id = ids.get(`${subject} ${canonicalSchema(schema)}`)
      if (id === undefined) {
        throw new AppError(
          'incompatible_schema',
          `The schema of ${subject} is not among the published ones; run \`npm run schemas:publish\` and commit the result.`,
        )
      }
      return id
    },
    async schemaById(id) {
      const schema = schemas.get(id)
      if (schema === undefined) throw new AppError('not_found', `No published schema has the id ${id}.`)
      return schema
    },
    async ping() {},
    async close() {},
  }
}

function readPublished(directory: string): PublishedSchemas {
  try {
    return loadPublished(directory)
  } catch (cause) {
    throw new AppError(
      'invalid_configuration',
      `${publishedFileName} in the schemas folder cannot be read; restore it from version control.`,
      { cause },
    )
  }
}

/** Ids by subject and schema text, and schema texts by id. */
function indexPublished(published: PublishedSchemas) {
  const ids = new Map<string, number>()
  const schemas = new Map<number, string>()
  for (const [subject, versions] of Object.entries(published)) {
    for (const { id, schema } of versions) {
      const text = JSON.stringify(schema)
      ids.set(`${subject} ${text}`, id)
      schemas.set(id, text)
    }
  }
  return { ids, schemas }
}
