/** Values that fit a schema, and the shell command that sends them. */

import type { Operation, Parameter, Schema } from './document.ts'
import { type Credential, serverMark } from './facts.ts'

/** Arrays of as many numbers are written by a command: nobody reads 1536 of them. */
const longArray = 64

/**
 * A value of the schema: its example where it has one. Of objects it holds what is required, and what is optional and has
 * an example.
 */
export function sampleOf(schema: Schema): unknown {
  const {
    examples,
    enum: values,
    anyOf,
    type,
  } = schema as {
    examples?: unknown[]
    enum?: unknown[]
    anyOf?: Schema[]
    type?: string
  }
  if ('const' in schema) return schema.const
  const given = examples?.[0] ?? values?.[0] ?? schema.default
  if (given !== undefined) return given
  if (anyOf) return sampleOf(anyOf[0]!)
  switch (type) {
    case 'object':
      return sampleObject(schema)
    case 'array':
      return Array.from({ length: Number(schema.minItems ?? 1) }, () => sampleOf(schema.items as Schema))
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    default:
      return 'text'
  }
}

function sampleObject({ properties = {}, required = [] }: Schema): Record<string, unknown> {
  const needed = required as string[]
  const shown = Object.entries(properties as Record<string, Schema>).filter(
    ([name, property]) => needed.includes(name) || property.examples,
  )
  return Object.fromEntries(shown.map(([name, property]) => [name, sampleOf(property)]))
}

/** A request for curl that works when it is pasted, once the variables that it names are set. */
export function curlOf(
  path: string,
  method: string,
  operation: Operation,
  credential: Credential | undefined,
): string {
  const body = operation.requestBody?.content['application/json']?.example
  const address = addressOf(path, operation)
  const unset = address.match(/(?<=\$)[A-Z_]+/g) ?? []
  const plain = method === 'get' || (method === 'post' && body !== undefined)
  const command = [
    `curl -sS ${plain ? '' : `-X ${method.toUpperCase()} `}"${serverMark}${address}"`,
    ...(credential ? [`-H "Authorization: Bearer $${credential.variable}"`] : []),
    ...(body === undefined ? [] : [`-H 'Content-Type: application/json'`, `-d ${quotedJson(body)}`]),
  ].join(' \\\n  ')
  return unset.length === 0 ? command : `# Set ${unset.join(' and ')} first.\n${command}`
}

/** A part of the path without an example is a shell variable of its name. */
function addressOf(path: string, { parameters = [] }: Operation): string {
  const of = (place: Parameter['in']) => parameters.filter((one) => one.in === place)
  const filled = of('path').reduce((text, { name, example }) => {
    const value = example === undefined ? `$${name.toUpperCase()}` : encoded(example)
    return text.replace(`{${name}}`, value)
  }, path)
  const query = of('query')
    .filter(({ required, example }) => required || example !== undefined)
    .flatMap(({ name, schema = {}, example }) =>
      [example ?? sampleOf(schema)].flat().map((value) => `${name}=${encoded(value)}`),
    )
  return query.length === 0 ? filled : `${filled}?${query.join('&')}`
}

/** Safe between double quotes of a shell, an interactive one too. */
function encoded(value: unknown): string {
  return encodeURIComponent(String(value)).replaceAll('!', '%21')
}

function quotedJson(value: unknown): string {
  const text = JSON.stringify(value, (_name, one) => (isLong(one) ? `@${one.length}x${one[0]}@` : one), 2)
  const quoted = `'${text.replaceAll("'", "'\\''")}'`
  return quoted.replace(
    /"@(\d+)x([\d.-]+)@"/g,
    (_all, count, number) => `['"$(yes ${number} | head -n ${count} | paste -sd, -)"']`,
  )
}

function isLong(value: unknown): value is number[] {
  return Array.isArray(value) && value.length >= longArray && value.every((one) => typeof one === 'number')
}
