/** Checks requests to Qdrant against Qdrant's own description. */

import { readFileSync } from 'node:fs'
import { Ajv2019, type ValidateFunction } from 'ajv/dist/2019.js'

interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
}

interface Operation {
  parameters?: Parameter[]
  requestBody?: { content: { 'application/json': { schema: object } } }
}

interface Description {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object> }
}

const descriptionId = 'http://qdrant/description'

/** The faults of a request; empty when it matches the description. */
export type RequestCheck = (method: string, url: string, body: unknown) => string[]

export function createRequestCheck(): RequestCheck {
  const file = new URL('./qdrant-openapi-1.19.json', import.meta.url)
  const description = toJsonSchema(JSON.parse(readFileSync(file, 'utf8'))) as Description
  const ajv = new Ajv2019({ strict: false, validateFormats: false })
  ajv.addSchema({ $id: descriptionId, components: description.components })
  const validators = new Map<string, ValidateFunction>()

  function bodyFaults(place: string, operation: Operation, body: unknown): string[] {
    const schema = operation.requestBody?.content['application/json'].schema
    if (!schema) return body === undefined ? [] : [`${place} takes no body`]
    let validate = validators.get(place)
    if (!validate) {
      validate = ajv.compile(absoluteReferences(schema))
      validators.set(place, validate)
    }
    if (validate(body)) return []
    return (validate.errors ?? []).map((error) => `${place}${error.instancePath}: ${error.message}`)
  }
  return (method, url, body) => {
    const { pathname, searchParams } = new URL(url, 'http://qdrant')
    const path = bestTemplate(Object.keys(description.paths), pathname)
    const operation = path && description.paths[path]?.[method.toLowerCase()]
    if (!operation) return [`${method} ${pathname} is not described`]
    const place = `${method} ${path}`
    const query = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query')
    const unknown = [...searchParams.keys()].filter((name) => !query.some((known) => known.name === name))
    const absent = query.filter((known) => known.required && !searchParams.has(known.name))
    return [
      ...unknown.map((name) => `${place} has no parameter ${name}`),
      ...absent.map(({ name }) => `${place} needs the parameter ${name}`),
      ...bodyFaults(place, operation, body),
    ]
  }
}

/** The template with the fewest parameters: `points/count` is no point's id, `/collections/aliases` no collection. */
function bestTemplate(templates: string[], pathname: string): string | undefined {
  const parameters = (template: string) => template.split('{').length
  return templates
    .filter((template) => new RegExp(`^${template.replace(/\{[^}]+\}/g, '[^/]+')}$`).test(pathname))
    .sort((a, b) => parameters(a) - parameters(b))[0]
}

/**
 * OpenAPI 3.0 as JSON Schema: `nullable` becomes a type. Objects that list their members are closed, so that a
 * misspelt one is found.
 */
function toJsonSchema(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(toJsonSchema)
  if (typeof node !== 'object' || node === null) return node
  const schema: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(node)) schema[key] = toJsonSchema(value)
  if (schema.nullable === true) {
    delete schema.nullable
    schema.type = schema.type === undefined ? 'null' : [schema.type, 'null']
  }
  if (schema.type === 'object' && schema.properties && schema.additionalProperties === undefined) {
    schema.unevaluatedProperties = false
  }
  return schema
}

function absoluteReferences(schema: object): object {
  return JSON.parse(
    JSON.stringify(schema).replaceAll('"#/components/', `"${descriptionId}#/components/`),
  ) as object
}
