/** Reads all schemas of a registry, and registers them in another one so that they have the same ids. */

import type { RegisteredSchema } from './manifest.ts'

/** In the order of their ids, which must have no gaps: only so can they be had again by registering. */
export async function readSchemas(registry: string): Promise<RegisteredSchema[]> {
  const found: RegisteredSchema[] = []
  for (const subject of await ask<string[]>(registry, 'subjects')) {
    const path = `subjects/${encodeURIComponent(subject)}/versions`
    const compatibility = await compatibilityOf(registry, subject)
    for (const version of await ask<number[]>(registry, path)) {
      const one = await ask<Partial<RegisteredSchema>>(registry, `${path}/${version}`)
      const { id = 0, schema = '', schemaType = 'AVRO' } = one
      found.push({ id, subject, version, schemaType, schema, compatibility })
    }
  }
  found.sort((a, b) => a.id - b.id || (a.subject < b.subject ? -1 : 1))
  const ids = new Set(found.map(({ id }) => id))
  if (found.length === 0 || Math.max(...ids) !== ids.size) {
    throw new Error(`the ids of the schemas have gaps: ${[...ids].join(', ')}; make the fixture again`)
  }
  return found
}

/**
 * Throws when one has another id than it had. A schema that other subjects have, too, has one id in all of them, but
 * each further registration uses up an id: those come last.
 */
export async function registerSchemas(registry: string, schemas: readonly RegisteredSchema[]): Promise<void> {
  const isFirst = ({ id }: RegisteredSchema, at: number) => schemas[at - 1]?.id !== id
  const firsts = schemas.filter(isFirst)
  const further = schemas.filter((one, at) => !isFirst(one, at))
  for (const { id, subject, schema, schemaType, compatibility } of [...firsts, ...further]) {
    const path = `subjects/${encodeURIComponent(subject)}/versions`
    const registered = await ask<{ id: number }>(registry, path, 'POST', { schema, schemaType })
    if (registered.id !== id) throw new Error(`${subject} had the schema ${id}, and now ${registered.id}`)
    if (compatibility !== null) {
      await ask(registry, `config/${encodeURIComponent(subject)}`, 'PUT', { compatibility })
    }
  }
}

async function compatibilityOf(registry: string, subject: string): Promise<string | null> {
  try {
    const path = `config/${encodeURIComponent(subject)}`
    return (await ask<{ compatibilityLevel: string }>(registry, path)).compatibilityLevel
  } catch {
    return null
  }
}

async function ask<T>(registry: string, path: string, method = 'GET', body?: unknown): Promise<T> {
  const response = await fetch(`${registry}/${path}`, {
    method,
    headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
  return JSON.parse(text) as T
}
