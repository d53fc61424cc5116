/** A schema registry for tests that numbers whatever is registered, and can be made unavailable. */

import type { SchemaRegistry } from '#engines/schema-registry/port.ts'
import { AppError } from '#lib/errors.ts'

export interface MemoryRegistry extends SchemaRegistry {
  /** While true every call fails as if the registry were away. */
  away: boolean
  /** Calls that reached the registry. */
  calls: string[]
}

/** Any topic name works: nothing needs to be published. */
export function createMemoryRegistry(): MemoryRegistry {
  const texts: string[] = []
  const registry: MemoryRegistry = {
    driver: 'folder',
    away: false,
    calls: [],
    async register(subject, schema) {
      answer(`register ${subject}`)
      if (!texts.includes(schema)) texts.push(schema)
      return texts.indexOf(schema) + 1
    },
    async schemaById(id) {
      answer(`schemaById ${id}`)
      const text = texts[id - 1]
      if (text === undefined) throw new AppError('not_found', `No schema has the id ${id}.`)
      return text
    },
    async ping() {
      answer('ping')
    },
    async close() {},
  }
  function answer(call: string): void {
    registry.calls.push(call)
    if (registry.away) throw new AppError('registry_unavailable', 'The schema registry does not answer.')
  }
  return registry
}
