/** Checks the values of an operator's YAML file by their schema, fills in variables, and names faults in plain English. */

import { createRequire } from 'node:module'
import type { Ajv, ErrorObject } from 'ajv'
import type { TSchema } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { nearestName } from '#lib/nearest-name.ts'
import { pointerPart } from '#lib/path-part.ts'
import { grouped } from '#lib/plural.ts'
import { type AnySchema, phraseOf, visible } from '#lib/schema-faults.ts'
import type { Parsed } from './parse-yaml.ts'

/** Values shorter than this are no secrets: they would be found everywhere. */
const secretLengthMin = 8

export interface CheckContext {
  /** The map that holds the value; its other values may be faulty. */
  parent: Readonly<Record<string, unknown>>
  /** `child`: the name in a map whose entry is at fault. */
  fault(message: string, child?: string): void
  /** Must never be written anywhere. */
  secret(text: string): void
}

/** What the schemas of these files may say beyond JSON Schema. */
export interface FileSchemaOptions {
  /** Further checks of a text, a list or a map; of a text once its variables are filled in. */
  // biome-ignore lint/suspicious/noExplicitAny: what it is given is of the type that its schema says
  check?(value: any, context: CheckContext): void
  /** True: the value of the environment variable goes where the text has `${NAME}`. */
  variables?: boolean
  /** The message for a value that does not fit, in place of the one made from the schema. */
  fault?: string
  /** What to say where a value that is required is missing. */
  missing?: string
  /** What to say at the first entry that is too many. */
  tooMany?: string
}

interface Filling {
  env: Environment
  fault(pointer: string, message: string): void
  secret(text: string): void
}

interface Found {
  instancePath: string
  parentData: Record<string, unknown>
  parentDataProperty: string
}

let ajv: Ajv | undefined

/** Loaded with the first file: most commands read none. */
function checker(): Ajv {
  if (ajv) return ajv
  const { Ajv: Checker } = createRequire(import.meta.url)('ajv') as typeof import('ajv')
  ajv = new Checker({
    strict: false,
    allErrors: true,
    useDefaults: true,
    // Infinity and NaN are numbers of YAML.
    strictNumbers: true,
    verbose: true,
    passContext: true,
  })
  ajv.addKeyword({ keyword: 'check', type: ['string', 'array', 'object'], validate: checkFurther as never })
  return ajv
}

/** Fills in variables and defaults, and adds to the faults of `parsed`. The result are the values that must never be written. */
export function checkValues(schema: TSchema, parsed: Parsed, env: Environment): ReadonlySet<string> {
  const secrets = new Set<string>()
  const filling: Filling = {
    env,
    fault(pointer, message) {
      let known = pointer
      while (!parsed.places.has(known)) known = known.slice(0, known.lastIndexOf('/'))
      parsed.faults.push({ ...parsed.places.get(known)!, message })
    },
    secret(text) {
      if (text.length >= secretLengthMin) secrets.add(text)
    },
  }
  const validate = checker().compile(schema as object)
  validate.call(filling as never, parsed.value)
  for (const error of validate.errors ?? []) filling.fault(pointerOf(error), sentenceOf(error))
  return secrets
}

function checkFurther(
  this: Filling,
  check: NonNullable<FileSchemaOptions['check']>,
  value: unknown,
  schema: FileSchema,
  { instancePath, parentData, parentDataProperty }: Found,
): boolean {
  const fault = (message: string, child?: string) =>
    this.fault(child === undefined ? instancePath : instancePath + pointerPart(child), message)
  let checked = value
  const kind = typeof value === 'string' ? 'string' : Array.isArray(value) ? 'array' : 'object'
  if (schema.type && ![schema.type].flat().includes(kind)) return true
  if (typeof value === 'string') {
    if (value === '' || !value.isWellFormed()) fault('must be a text')
    else if (schema.variables) checked = fillVariables(value, this, fault)
    if (value === '' || !value.isWellFormed() || checked === null) return true
    parentData[parentDataProperty] = checked
  }
  check(checked, { parent: parentData, fault, secret: this.secret })
  return true
}

function pointerOf({ instancePath, keyword, params, data }: ErrorObject): string {
  if (keyword === 'additionalProperties') return instancePath + pointerPart(params.additionalProperty)
  if (keyword !== 'maxProperties') return instancePath
  return instancePath + pointerPart(Object.keys(data as object)[params.limit]!)
}

type FileSchema = FileSchemaOptions & AnySchema & { properties?: Record<string, FileSchemaOptions> }

function sentenceOf({ keyword, params, parentSchema, data }: ErrorObject): string {
  const schema = parentSchema as FileSchema
  const { type, properties = {}, fault, tooMany } = schema
  if (keyword === 'additionalProperties')
    return unknownKey(params.additionalProperty, Object.keys(properties))
  if (keyword === 'required') return properties[params.missingProperty]?.missing ?? 'is missing'
  if (keyword === 'maxProperties' && tooMany) return tooMany
  const isText = [type].flat().includes('string')
  if (isText && typeof data === 'number') return 'must be a text: put it in quotes'
  if (fault) return fault
  if (keyword === 'maxLength') return `must have at most ${grouped(params.limit)} characters`
  if (isText) return 'must be a text'
  const mayBeSecret = typeof data === 'string' && data.length >= secretLengthMin
  return mayBeSecret ? `must be ${phraseOf(schema)}` : `is ${visible(data)}: ${phraseOf(schema)}`
}

function unknownKey(name: string, known: readonly string[]): string {
  const meant = nearestName(name, known)
  return `is not a known key${meant ? `: did you mean ${meant}?` : `; there are ${known.join(', ')}`}`
}

const reference = /\$\$\{|\$\{([^}]*)\}?/g
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Fills in the variables; `$${` becomes a plain `${`. An empty variable counts as unset. Null after a fault. */
function fillVariables(
  text: string,
  { env, secret }: Filling,
  fault: (message: string) => void,
): string | null {
  const unset = new Set<string>()
  let malformed = false
  const filled = text.replace(reference, (whole: string, name: string | undefined) => {
    if (whole === '$${') return '${'
    if (!whole.endsWith('}') || !variableName.test(name ?? '')) {
      malformed = true
      return ''
    }
    const value = Object.hasOwn(env, name as string) ? env[name as string] : undefined
    if (value === undefined || value === '') unset.add(name as string)
    else secret(value)
    return value ?? ''
  })
  if (malformed) fault(`has a "\${" that begins no \${NAME}; write "$\${" for the characters themselves`)
  for (const name of unset) {
    fault(`needs the environment variable ${name}, which is unset or empty: set it where the platform starts`)
  }
  return malformed || unset.size > 0 ? null : filled
}
