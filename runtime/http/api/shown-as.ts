/** Schemas that check and serialise in one way and are described in another. */

import type { TSchema } from 'typebox'

const key = 'x-shown-as'

/**
 * Options for a schema: the API description shows `shown` in its place. For what the handler checks by its own code (vectors
 * are checked in the pass that packs them) or answers with a code of its own.
 */
export function shownAs(shown: TSchema): Record<string, TSchema> {
  return { [key]: shown }
}

/** A copy of the schema as readers of the description see it. */
export function asShown<T>(schema: T): T {
  return JSON.parse(JSON.stringify(schema, (_name, value) => value?.[key] ?? value)) as T
}
