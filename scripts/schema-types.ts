/** Turns Avro schemas into TypeScript interfaces, so that the types of values are never written by hand. */

type Avro = string | Avro[] | { type: Avro; [attribute: string]: unknown }
type NamedAvro = { type: Avro; name: string; namespace?: string }

const primitives: Record<string, string> = {
  null: 'null',
  boolean: 'boolean',
  int: 'number',
  long: 'number',
  float: 'number',
  double: 'number',
  string: 'string',
  bytes: 'Buffer',
  fixed: 'Buffer',
}

/**
 * The text of types.ts for schemas by file name. Throws an Error when two schemas give one name different fields or a
 * top-level schema is not a record.
 */
export function typesOf(schemas: ReadonlyMap<string, string>): string {
  const interfaces = new Map<string, string>()
  const byFile: string[] = []
  for (const [file, text] of schemas) {
    const schema = JSON.parse(text) as Avro
    if (typeof schema === 'string' || Array.isArray(schema) || schema.type !== 'record') {
      throw new Error(`${file}.avsc must be a record`)
    }
    byFile.push(`  '${file}': ${typeOf(schema, interfaces, new Map())}`)
  }
  return [
    '// Made from the .avsc files by `npm run schemas:types`: do not edit.',
    ...interfaces.values(),
    `export interface Schemas {\n${byFile.join('\n')}\n}`,
  ].join('\n\n')
}

/** TypeScript of a schema; records met on the way are added to `interfaces`, other named types to `named`. */
function typeOf(schema: Avro, interfaces: Map<string, string>, named: Map<string, string>): string {
  if (typeof schema === 'string')
    return primitives[schema] ?? named.get(shortName(schema)) ?? unknownType(schema)
  if (Array.isArray(schema)) return unionOf(schema, interfaces, named)
  const inner = (key: string) => typeOf(schema[key] as Avro, interfaces, named)
  switch (schema.type) {
    case 'record':
      return recordOf(schema, interfaces, named)
    case 'enum': {
      const text = (schema.symbols as string[]).map((symbol) => `'${symbol}'`).join(' | ')
      named.set(shortName(schema.name as string), text)
      return text
    }
    case 'fixed':
      named.set(shortName(schema.name as string), 'Buffer')
      return 'Buffer'
    case 'array':
      return `(${inner('items')})[]`
    case 'map':
      return `Record<string, ${inner('values')}>`
    default:
      return typeOf(schema.type, interfaces, named)
  }
}

function recordOf(
  schema: { type: Avro; [attribute: string]: unknown },
  interfaces: Map<string, string>,
  named: Map<string, string>,
): string {
  const name = shortName(schema.name as string)
  // Before its fields, because a record may contain itself.
  named.set(name, name)
  const fields = (schema.fields as { name: string; type: Avro; doc?: string }[]).map((field) => {
    const comment = field.doc === undefined ? '' : `  /** ${field.doc} */\n`
    return `${comment}  ${field.name}: ${typeOf(field.type, interfaces, named)}`
  })
  const doc = schema.doc === undefined ? '' : `/** ${schema.doc as string} */\n`
  const text = `${doc}export interface ${name} {\n${fields.join('\n')}\n}`
  const known = interfaces.get(name)
  if (known !== undefined && known !== text) throw new Error(`Two different records are named ${name}`)
  interfaces.set(name, text)
  return name
}

/** Branches of avsc's unions: bare where they cannot be confused, else wrapped in an object that names the branch. */
function unionOf(branches: Avro[], interfaces: Map<string, string>, named: Map<string, string>): string {
  const records = branches.filter((branch) => typeof branch === 'object' && 'name' in branch)
  const nullLast = [...branches].sort((a, b) => Number(a === 'null') - Number(b === 'null'))
  return nullLast
    .map((branch) => {
      const text = typeOf(branch, interfaces, named)
      return records.length > 1 && records.includes(branch) ? `{ '${fullName(branch)}': ${text} }` : text
    })
    .join(' | ')
}

function shortName(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1)
}

function fullName(schema: Avro): string {
  const { name, namespace } = schema as NamedAvro
  return namespace === undefined || name.includes('.') ? name : `${namespace}.${name}`
}

function unknownType(name: string): never {
  throw new Error(`${name} is not a type of Avro and not defined before its use`)
}
