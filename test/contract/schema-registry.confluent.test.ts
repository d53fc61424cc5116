/**
 * The registry behind Confluent's API: ids remain, incompatible changes are refused, an absent registry is reported.
 */

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { openConfluentRegistry } from '#engines/schema-registry/confluent.ts'
import { registryUrl } from '#test/support/servers.ts'

const field = (name: string, rest: object = {}) => ({ name, type: 'string', ...rest })
const schema = (...fields: object[]) =>
  JSON.stringify({ type: 'record', name: 'Thing', namespace: 'test', doc: 'kept as it is', fields })
const base = schema(field('id'))
const open = async () => openConfluentRegistry({ url: await registryUrl() })

test('a schema has one id, and a fresh client finds its text under it', async () => {
  const [one, two] = [await open(), await open()]
  const subject = `s-${randomUUID()}`
  const id = await one.register(subject, base)
  expect(await one.register(subject, base)).toBe(id)
  expect(await two.register(subject, base)).toBe(id)
  expect(JSON.parse(await two.schemaById(id))).toEqual(JSON.parse(base))
  expect(await two.schemaById(id)).toBe(await two.schemaById(id))
})

test('a compatible change gets a new id, an incompatible one is refused, also by a fresh client', async () => {
  const registry = await open()
  const subject = `s-${randomUUID()}`
  const first = await registry.register(subject, base)
  const second = await registry.register(subject, schema(field('id'), field('note', { default: '' })))
  expect(second).not.toBe(first)
  const breaking = schema(field('id'), field('must'))
  for (const client of [registry, await open()]) {
    await expect(client.register(subject, breaking)).rejects.toMatchObject({ code: 'incompatible_schema' })
  }
  expect(await registry.register(subject, base)).toBe(first)
})

test('many that register the same new subjects at once all get the same ids', async () => {
  const registries = await Promise.all(Array.from({ length: 5 }, open))
  for (let round = 0; round < 3; round++) {
    const subjects = Array.from({ length: 2 }, () => `s-${randomUUID()}`)
    const ids = await Promise.all(
      registries.map((registry) => Promise.all(subjects.map((subject) => registry.register(subject, base)))),
    )
    expect(new Set(ids.map(String)).size).toBe(1)
  }
})

test('text that is not Avro is refused', async () => {
  const registry = await open()
  await expect(registry.register('s', '{"type":"nonsense"}')).rejects.toMatchObject({
    code: 'incompatible_schema',
  })
})

test('an unknown id is not found', async () => {
  await expect((await open()).schemaById(987_654_321)).rejects.toMatchObject({ code: 'not_found' })
})

test('the registry answers a ping; where none is, every call says so', async () => {
  await expect((await open()).ping()).resolves.toBeUndefined()
  const away = await openConfluentRegistry({ url: 'http://user:secret@127.0.0.1:9/api' })
  for (const call of [away.ping(), away.schemaById(1), away.register('s', base)]) {
    const error = await call.catch((thrown: Error) => thrown)
    expect(error).toMatchObject({ code: 'registry_unavailable', retryAfter: 1 })
    expect(String((error as Error).message)).not.toContain('secret')
  }
})
