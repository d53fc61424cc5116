/** The parts of an OpenAPI 3.1 document that the kit writes; schemas with a title become components that operations refer to. */

export type Schema = Record<string, unknown>

interface Media {
  schema: Schema
  example?: unknown
  examples?: Record<string, unknown>
}

export interface Answer {
  description: string
  headers?: Record<string, unknown>
  content?: Record<string, Media>
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header' | 'cookie'
  required?: boolean
  schema?: Schema
  example?: unknown
}

export interface Operation {
  operationId: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Answer>
  'x-codeSamples'?: { lang: string; label: string; source: string }[]
}

export interface Document {
  servers?: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  components: Record<'schemas' | 'headers' | 'examples' | 'securitySchemes', Record<string, unknown>>
}

/** Every operation with its address and method. */
export function* operationsOf(document: Document): Generator<[string, string, Operation]> {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) yield [path, method, operation]
  }
}

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
