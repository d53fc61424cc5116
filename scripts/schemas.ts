/**
 * Checks and publishes schemas: `check` refuses incompatible or unpublished ones, `publish` numbers new ones, `types` writes
 * types.ts.
 */

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadPublished, loadSchemas, publishedFileName } from '#lib/schema-files.ts'
import { schemasDirectory } from '#runtime/publish/codec.ts'
import { catalog } from '#topics/catalog.ts'
import { findIncompatible, findUnpublished, publish, type SubjectSchema } from './schema-evolution.ts'
import { typesOf } from './schema-types.ts'

const typesFile = join(schemasDirectory, 'types.ts')
const formatter = fileURLToPath(new URL('../node_modules/.bin/biome', import.meta.url))
const formatTimeoutMs = 60_000

const schemas = loadSchemas(schemasDirectory)
const published = loadPublished(schemasDirectory)
const current: SubjectSchema[] = catalog.map((topic) => {
  const schema = schemas.get(topic.schema)
  if (schema === undefined)
    throw new Error(`${topic.name} names schemas/${topic.schema}.avsc, which is absent`)
  return { subject: `${topic.name}-value`, schema, public: topic.public !== undefined }
})

const commands: Record<string, () => string[]> = { check, publish: publishAll, types: writeTypes }
const command = commands[process.argv[2] ?? '']
if (!command) {
  console.error('Usage: node scripts/schemas.ts check | publish | types')
  process.exit(2)
}
const faults = command()
for (const fault of faults) console.error(fault)
if (faults.length > 0) process.exit(1)

function check(): string[] {
  const incompatible = findIncompatible(published, current)
  const unpublished = findUnpublished(published, current).map(
    (subject) =>
      `${subject}: the schema is not published; run \`npm run schemas:publish\` and commit the result`,
  )
  const stale =
    readFileSync(typesFile, 'utf8') === formattedTypes()
      ? []
      : ['schemas/types.ts is not what the .avsc files say; run `npm run schemas:types`']
  return [...incompatible, ...unpublished, ...stale]
}

function publishAll(): string[] {
  const incompatible = findIncompatible(published, current)
  if (incompatible.length > 0) return incompatible
  const next = publish(published, current)
  writeFileSync(join(schemasDirectory, publishedFileName), `${JSON.stringify(next, null, 2)}\n`)
  for (const subject of findUnpublished(published, current)) console.log(`published ${subject}`)
  return []
}

function writeTypes(): string[] {
  writeFileSync(typesFile, formattedTypes())
  return []
}

function formattedTypes(): string {
  return execFileSync(formatter, ['format', `--stdin-file-path=${typesFile}`], {
    input: typesOf(schemas),
    encoding: 'utf8',
    timeout: formatTimeoutMs,
  })
}
