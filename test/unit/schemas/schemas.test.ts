/** The schemas: published versions, evolution, types, and the registry over the folder. */

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFolderRegistry } from '#engines/schema-registry/folder.ts'
import { loadPublished, loadSchemas } from '#lib/schema-files.ts'
import { createCodec, schemasDirectory } from '#runtime/publish/codec.ts'
import { catalog } from '#topics/catalog.ts'
import { findIncompatible, findUnpublished, publish } from '../../../scripts/schema-evolution.ts'
import { typesOf } from '../../../scripts/schema-types.ts'
import { temporaryFolder } from '../../support/temporary.ts'

type Field = Record<string, unknown>
const record = (...fields: Field[]) => JSON.stringify({ type: 'record', name: 'R', namespace: 'n', fields })
const id = { name: 'id', type: 'string' }
const at = { name: 'at', type: 'long' }
const kind = (...symbols: string[]) => ({ name: 'kind', type: { type: 'enum', name: 'Kind', symbols } })

const publishedAs = (schema: string) => publish({}, [{ subject: 's', schema }])
const faultsOf = (before: string, after: string) =>
  findIncompatible(publishedAs(before), [{ subject: 's', schema: after }])

test('the check of this checkout passes', () => {
  execFileSync(process.execPath, ['scripts/schemas.ts', 'check'], {
    cwd: join(schemasDirectory, '..'),
    timeout: 60_000,
  })
})

test.each([
  ['a new field without a default', record(id), record(id, at)],
  ['another type', record(at), record({ name: 'at', type: 'string' })],
  ['a narrower type', record(at), record({ name: 'at', type: 'int' })],
  ['a renamed field', record(id), record({ name: 'identity', type: 'string' })],
  ['no null any more', record({ name: 'id', type: ['null', 'string'] }), record(id)],
  ['a symbol less', record(kind('a', 'b')), record(kind('a'))],
  ['another record', record(id), JSON.stringify({ type: 'record', name: 'Other', fields: [id] })],
])('%s is refused', (_, before, after) => {
  expect(faultsOf(before, after)).toEqual([
    expect.stringMatching(/^s: records of version 1 could not be read/),
  ])
})

test.each([
  ['a new field with a default', record(id), record(id, { ...at, default: 0 })],
  ['a field less', record(id, at), record(id)],
  ['a wider type', record({ name: 'at', type: 'int' }), record(at)],
  ['null allowed', record(id), record({ name: 'id', type: ['null', 'string'] })],
  ['a symbol more', record(kind('a')), record(kind('a', 'b'))],
  ['another order and doc', record(id, at), record({ ...at, doc: 'when' }, id)],
])('%s is accepted', (_, before, after) => {
  expect(faultsOf(before, after)).toEqual([])
})

const withDefault = (...symbols: string[]) => ({
  name: 'kind',
  type: { type: 'enum', name: 'Kind', symbols, default: 'other' },
})
const publicFaultsOf = (before: string, after: string) =>
  findIncompatible(publishedAs(before), [{ subject: 's', schema: after, public: true }])

test.each([
  ['a field less that had no default', record(id, at), record(id)],
  ['a wider type', record({ name: 'at', type: 'int' }), record(at)],
  ['null allowed', record(id), record({ name: 'id', type: ['null', 'string'] })],
  ['a symbol more, without a default', record(kind('a')), record(kind('a', 'b'))],
])('%s is refused where others read', (_, before, after) => {
  expect(publicFaultsOf(before, after)).toEqual([
    expect.stringMatching(/^s: readers with version 1 could not read it/),
  ])
})

test.each([
  ['a new field with a default', record(id), record(id, { ...at, default: 0 })],
  ['a field less that had a default', record(id, { ...at, default: 0 }), record(id)],
  ['a symbol more, with a default', record(withDefault('other')), record(withDefault('other', 'b'))],
])('%s is accepted where others read', (_, before, after) => {
  expect(publicFaultsOf(before, after)).toEqual([])
})

test('a change is held against every version: compacted topics keep the oldest records', () => {
  const first = publishedAs(record(id))
  const second = publish(first, [{ subject: 's', schema: record(id, { ...at, default: 0 }) }])
  expect(second.s!.map((version) => version.id)).toEqual([1, 2])
  // Readable for version 2, which has the field; not for version 1.
  expect(findIncompatible(second, [{ subject: 's', schema: record(id, at) }])).toEqual([
    expect.stringContaining('version 1'),
  ])
})

test('publishing gives new schemas the next id, equal ones the same, and touches nothing else', () => {
  const one = publish({}, [
    { subject: 'a', schema: record(id) },
    { subject: 'b', schema: record(id) },
    { subject: 'c', schema: record(at) },
  ])
  expect([one.a![0]!.id, one.b![0]!.id, one.c![0]!.id]).toEqual([1, 1, 2])
  expect(publish(one, [{ subject: 'a', schema: record(id) }])).toEqual(one)
  expect(findUnpublished(one, [{ subject: 'a', schema: record(at) }])).toEqual(['a'])
})

test('the types of the avsc files are made, not written', () => {
  const schema = JSON.stringify({
    type: 'record',
    name: 'Thing',
    namespace: 'n',
    doc: 'A thing.',
    fields: [
      { name: 'id', type: 'string', doc: 'its name' },
      { name: 'at', type: { type: 'long', logicalType: 'timestamp-millis' } },
      { name: 'kind', type: { type: 'enum', name: 'Kind', symbols: ['a', 'b'] } },
      { name: 'data', type: ['null', 'bytes'] },
      { name: 'labels', type: { type: 'map', values: 'Kind' } },
      { name: 'parts', type: { type: 'array', items: ['null', 'n.Thing'] } },
      { name: 'inner', type: { type: 'record', name: 'Inner', fields: [{ name: 'n', type: 'double' }] } },
    ],
  })
  const text = typesOf(new Map([['thing', schema]]))
  for (const line of [
    '/** A thing. */',
    '  /** its name */\n  id: string',
    '  at: number',
    "  kind: 'a' | 'b'",
    '  data: Buffer | null',
    "  labels: Record<string, 'a' | 'b'>",
    '  parts: (Thing | null)[]',
    'export interface Inner {\n  n: number\n}',
    "export interface Schemas {\n  'thing': Thing\n}",
  ]) {
    expect(text).toContain(line)
  }
})

test('the folder registry gives the committed ids to every topic of the catalogue', async () => {
  const registry = await openFolderRegistry({ directory: schemasDirectory })
  const schemas = loadSchemas(schemasDirectory)
  const published = loadPublished(schemasDirectory)
  for (const topic of catalog) {
    const subject = `${topic.name}-value`
    const given = await registry.register(subject, schemas.get(topic.schema)!)
    expect(given).toBe(published[subject]!.at(-1)!.id)
    expect(await registry.schemaById(given)).toBe(schemas.get(topic.schema))
  }
})

test('a schema that was not published is refused, with the command that publishes it', async () => {
  const registry = await openFolderRegistry({ directory: schemasDirectory })
  await expect(registry.register('vectors.commands-value', record(id))).rejects.toMatchObject({
    code: 'incompatible_schema',
    message: expect.stringContaining('npm run schemas:publish'),
  })
  await expect(registry.register('nobody-value', record(id))).rejects.toMatchObject({
    code: 'incompatible_schema',
  })
  await expect(registry.schemaById(4711)).rejects.toMatchObject({ code: 'not_found' })
})

test('older versions stay readable, and spacing makes no difference', async () => {
  const directory = temporaryFolder()
  const versions = publish(publishedAs(record(id)), [
    { subject: 's', schema: record(id, { ...at, default: 0 }) },
  ])
  writeFileSync(join(directory, 'published.json'), JSON.stringify(versions, null, 4))
  const registry = await openFolderRegistry({ directory })
  expect(await registry.schemaById(1)).toBe(record(id))
  expect(await registry.register('s', JSON.stringify(JSON.parse(record(id)), null, 3))).toBe(1)
})

test('a damaged file of published schemas stops the start', async () => {
  const directory = temporaryFolder()
  writeFileSync(join(directory, 'published.json'), '{ "s": [')
  await expect(openFolderRegistry({ directory })).rejects.toMatchObject({ code: 'invalid_configuration' })
})

test('a codec over the folder registry writes what the file says', async () => {
  const codec = createCodec(await openFolderRegistry({ directory: schemasDirectory }))
  const topic = catalog.find(({ name }) => name === 'vectors.commands')!
  // A topic that is found by its name has no type of its value.
  const bytes = await codec.encode(topic as never, { vector: Buffer.alloc(8), payload: '{}' } as never)
  const published = JSON.parse(readFileSync(join(schemasDirectory, 'published.json'), 'utf8'))
  expect(bytes.readInt32BE(1)).toBe(published['vectors.commands-value'].at(-1).id)
})
