/** Moves schemas that have a title out of the operations of an API description, into components that these refer to. */

import type { Schema } from './document.ts'

const prefix = '#/components/schemas/'

/**
 * Replaces every titled schema inside `value` by a reference and puts it into `components` under its title, the nested
 * ones too. Throws when one title names two different schemas: generated clients would have one type for both.
 */
export function liftTitled(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((one) => liftTitled(one, components))
  if (value === null || typeof value !== 'object') return value
  const lifted = Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      // Data, not schemas.
      name === 'example' || name === 'examples' ? one : liftTitled(one, components),
    ]),
  )
  const { title, ...schema } = lifted
  if (typeof title !== 'string' || !isSchema(schema)) return lifted
  const present = components[title]
  if (present !== undefined && withoutNotes(present) !== withoutNotes(schema)) {
    throw new Error(`two different schemas have the title ${title}`)
  }
  components[title] = { ...schema, ...(present as Schema | undefined) }
  return { $ref: `${prefix}${title}` }
}

function isSchema(value: Schema): boolean {
  return ['type', 'enum', 'anyOf', 'oneOf', 'allOf', 'const'].some((name) => name in value)
}

/** Those of a whole body or of a parameter are kept next to the schema, those of the same schema inside another one in it. */
function withoutNotes(schema: unknown): string {
  const { examples, description, ...rest } = schema as Schema
  return JSON.stringify(rest)
}
