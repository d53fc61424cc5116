/** Requests that are meant to do harm, made for every operation that an OpenAPI description names. */

import { sampleOf } from '#runtime/http/api/samples.ts'

interface Schema {
  $ref?: string
  properties?: Record<string, Schema>
}

interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  schema?: Schema
}

interface Operation {
  parameters?: Parameter[]
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> }
  responses: Record<
    string,
    { content?: Record<string, { examples?: Record<string, { value: { code: string } }> }> }
  >
}

export interface ApiDescription {
  paths: Record<string, Record<string, Operation>>
}

/** A description with its parts in place of the references to them. */
export function withoutReferences(description: unknown): ApiDescription {
  const root = description as Record<string, unknown>
  function resolve(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(resolve)
    if (value === null || typeof value !== 'object') return value
    const { $ref } = value as { $ref?: unknown }
    if (typeof $ref === 'string') {
      const names = $ref.slice('#/'.length).split('/')
      return resolve(names.reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], root))
    }
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolve(one)]))
  }
  return resolve(description) as ApiDescription
}

/** The codes that an operation says it answers with this status. */
export function documentedCodes(operation: Operation | undefined, status: number): string[] {
  const examples = operation?.responses[status]?.content?.['application/problem+json']?.examples ?? {}
  return Object.values(examples).map(({ value }) => value.code)
}

export interface HostileRequest {
  operation: Operation
  /** Route and fault. */
  name: string
  method: string
  path: string
  headers?: Record<string, string>
  body?: Uint8Array<ArrayBuffer>
}

const nested = (open: string, core: string, close: string, depth: number) =>
  open.repeat(depth) + core + close.repeat(depth)

/** JSON texts of single values. */
const values: Record<string, string> = {
  null: 'null',
  'a number': '7',
  'a negative number': '-1',
  'a number beyond double': '1e999',
  'an empty string': '""',
  NUL: '"a\\u0000b"',
  'half a surrogate pair': '"\\ud83d"',
  'a long string': JSON.stringify('x'.repeat(20_000)),
  'an emoji string': JSON.stringify('🐋'.repeat(64)),
  SQL: JSON.stringify("x' OR 1=1; --"),
  'an empty array': '[]',
  'keys of prototypes': '{"__proto__":{"a":1},"constructor":{"prototype":1},"toString":1}',
  'an array of nulls': '[null,null]',
  'a wide array': `[${new Array(5_000).fill('{}')}]`,
  'an object of 100 levels': nested('{"a":', '1', '}', 100),
  'an object of 20,000 levels': nested('{"a":', '1', '}', 20_000),
  'an array of 5,000 levels': nested('[', '', ']', 5_000),
}

/** Whole bodies. */
const bodies: Record<string, string | Uint8Array<ArrayBuffer>> = {
  ...values,
  nothing: '',
  'a brace': '{',
  'an object of 170,000 levels': nested('{"a":', '1', '}', 170_000),
  'an object of 170,000 levels, cut off': '{"a":'.repeat(170_000),
  'an array of 400,000 levels': nested('[', '', ']', 400_000),
  'bytes that are no UTF-8': new Uint8Array([0x22, 0xff, 0xfe, 0x22]),
  'a byte order mark': '\ufeff{}',
  NaN: '{"a":NaN}',
  'keys that repeat': '{"a":1,"a":2}',
  'a key of NUL': '{"\\u0000":1}',
  'a key of half a surrogate pair': '{"\\udc00":1}',
  'ten thousand keys': `{${Array.from({ length: 10_000 }, (_, n) => `"k${n}":1`)}}`,
}

/** Percent-encoded texts for addresses. */
const texts: Record<string, string> = {
  NUL: 'x%00',
  'NUL alone': '%00',
  'bytes that are no UTF-8': '%ff%fe',
  'a cut escape': '%e',
  'a line break': 'a%0d%0ab',
  'a way up': '..%2f..%2fetc%2fpasswd',
  'a prototype': '__proto__',
  SQL: encodeURIComponent("x' OR 1=1; --"),
  'emojis that end at a limit': `${'a'.repeat(63)}${encodeURIComponent('🐋')}`,
  'a long text': 'x'.repeat(10_000),
  'deep JSON': encodeURIComponent(nested('{"a":', '1', '}', 5_000)),
  'a deep filter': encodeURIComponent(
    `{"must":[{"key":"a","match":{"value":${nested('[', '', ']', 20_000)}}}]}`,
  ),
}

/**
 * Everything hostile for each operation: whole bodies, each field of its body, each part of its address. `known`: parts of
 * addresses that are there; others are `x`.
 */
export function* hostileRequests(
  api: ApiDescription,
  known: Record<string, string> = {},
): Generator<HostileRequest> {
  for (const [route, methods] of Object.entries(api.paths)) {
    for (const [name, operation] of Object.entries(methods)) {
      const method = name.toUpperCase()
      for (const one of addresses(route, operation, known)) {
        yield { ...one, operation, name: `${method} ${route}: ${one.name}`, method, ...bodyFor(operation) }
      }
      for (const [what, body] of wholeBodies(operation)) {
        yield {
          operation,
          name: `${method} ${route}: a body of ${what}`,
          method,
          path: addressOf(route, operation.parameters ?? [], known),
          ...body,
        }
      }
    }
  }
}

function* addresses(route: string, { parameters = [] }: Operation, known: Record<string, string>) {
  for (const parameter of parameters) {
    for (const [what, text] of Object.entries(texts)) {
      const name = `${what} as ${parameter.name}`
      if (parameter.in === 'header') continue
      const given = { ...known, [parameter.name]: text }
      yield { name, path: addressOf(route, parameters, given) }
      if (parameter.in === 'query')
        yield {
          name: `${name} twice`,
          path: `${addressOf(route, parameters, given)}&${parameter.name}=${text}`,
        }
    }
  }
}

function addressOf(route: string, parameters: Parameter[], given: Record<string, string>): string {
  const path = route.replace(/\{([^}]+)\}/g, (_, name: string) => given[name] ?? 'x')
  const query = parameters.filter(
    ({ in: place, name, required }) => place === 'query' && (required || name in given),
  )
  return `${path}?${query.map(({ name, schema }) => `${name}=${given[name] ?? encodeURIComponent(String(sampleOf({ ...schema })))}`).join('&')}`
}

const jsonHeaders = { 'content-type': 'application/json' }
const bytesOf = (text: string | Uint8Array<ArrayBuffer>) =>
  typeof text === 'string' ? new TextEncoder().encode(text) : text

function bodyFor(operation: Operation): Pick<HostileRequest, 'headers' | 'body'> {
  const schema = schemaOf(operation)
  return schema ? { headers: jsonHeaders, body: bytesOf(JSON.stringify(sampleBody(operation))) } : {}
}

function schemaOf({ requestBody }: Operation): Schema | undefined {
  return requestBody?.content['application/json']?.schema
}

/** The body of its example: a good one. */
function sampleBody({ requestBody }: Operation): unknown {
  return requestBody?.content['application/json']?.example
}

function* wholeBodies(operation: Operation): Generator<[string, Pick<HostileRequest, 'headers' | 'body'>]> {
  const schema = schemaOf(operation)
  if (!schema) return
  for (const [what, body] of Object.entries(bodies))
    yield [what, { headers: jsonHeaders, body: bytesOf(body) }]
  const sample = sampleBody(operation)
  const good = bytesOf(JSON.stringify(sample))
  for (const type of ['text/plain', 'application/json; charset=utf-16', 'multipart/form-data', 'x']) {
    yield [`type ${type}`, { headers: { 'content-type': type }, body: good }]
  }
  yield [
    'a hostile Idempotency-Key',
    { headers: { ...jsonHeaders, 'idempotency-key': 'x'.repeat(5_000) }, body: good },
  ]
  for (const name of Object.keys(schema.properties ?? {})) {
    const others = Object.entries(sample as object).filter(([key]) => key !== name)
    const rest = others.map(([key, value]) => `,${JSON.stringify(key)}:${JSON.stringify(value)}`).join('')
    for (const [what, value] of Object.entries(values)) {
      yield [
        `${what} as ${name}`,
        { headers: jsonHeaders, body: bytesOf(`{${JSON.stringify(name)}:${value}${rest}}`) },
      ]
    }
  }
}
