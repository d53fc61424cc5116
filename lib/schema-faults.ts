/**
 * Puts what a JSON Schema validator finds into words that name the rule and the value: for requests, environment
 * variables, YAML files and the command line alike.
 */

import { nearestName } from './nearest-name.ts'
import { pointerPart } from './path-part.ts'
import { counted, grouped } from './plural.ts'
import { oneLine } from './terminal-text.ts'

/** A fault as Ajv and TypeBox have it. */
export interface SchemaFault {
  keyword: string
  instancePath: string
  schemaPath: string
  params: object
}

/** The parts of JSON Schema that the platform uses. */
export interface AnySchema {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: AnySchema[]
  properties?: Record<string, AnySchema>
  description?: string
  format?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  /** The rule in words, where its keywords do not say it: of a pattern, `16 to 256 hexadecimal digits`. */
  rule?: string
}

export interface WordedFault {
  /** JSON Pointer of the value, or of the field that is unknown or missing. */
  path: string
  /** The rule that the value breaks, a phrase: `at most 1,000 items`. */
  rule?: string
  /** In place of a rule: the field's fault as a predicate: `is required`. */
  fault?: string
  /** The value in words, cut and escaped, or the number of its parts; none for secrets. */
  value?: string
  /** Several parts: `1,204 were sent`. */
  isPlural?: boolean
  /** The name that was probably meant. */
  meant?: string
}

/** A union has a fault for each of its choices. */
const lookedThroughMax = 200
const namesMax = 12
const valueLengthMax = 60

/** `schema` and `value`: those that the faults were found with. A union that no choice of fits has one fault. */
export function wordedFaults(faults: readonly SchemaFault[], schema: unknown, value: unknown): WordedFault[] {
  const worded = withoutChoices(faults.slice(0, lookedThroughMax)).flatMap((fault) =>
    wordsOf(fault, schemaAt(schema, fault), valueAt(value, fault.instancePath)),
  )
  const byText = new Map(worded.map((one) => [`${one.path}\n${one.rule ?? one.fault}`, one]))
  return [...byText.values()]
}

/** For a problem document, behind the path and a colon: `at most 1,000 items (1,204 were sent)`. */
export function requestSentence({ rule, fault, value, isPlural, meant }: Omit<WordedFault, 'path'>): string {
  const sent = value === undefined ? '' : ` (${value} ${isPlural ? 'were' : 'was'} sent)`
  return `${rule ?? fault}${sent}${suggestion(meant)}`
}

/** As `requestSentence`, for a rule that is checked by hand. */
export const ruleAndValue = (rule: string, value: unknown) =>
  requestSentence({ rule, ...(value === undefined ? {} : { value: visible(value) }) })

/** For settings of the environment or a file, behind their name: `is "abc": a whole number from 0 to 65,535`. */
export function settingSentence({ rule, fault, value, meant }: Omit<WordedFault, 'path'>): string {
  if (rule === undefined) return `${fault}${suggestion(meant)}`
  return `is ${value ?? 'not valid'}: ${rule}${suggestion(meant)}`
}

const suggestion = (meant: string | undefined) => (meant === undefined ? '' : `; did you mean ${meant}?`)

/** The value of a schema in words: `a whole number from 0 to 65,535`. */
export function phraseOf(schema: AnySchema): string {
  if (schema.rule !== undefined) return schema.rule
  if (schema.enum) return listOf(schema.enum.map(plain))
  if (schema.const !== undefined) return plain(schema.const)
  if (schema.anyOf) return choiceOf([...new Set(schema.anyOf.map(phraseOf))])
  return choiceOf([schema.type ?? 'another value'].flat().map((type) => phraseOfType(type, schema)))
}

function phraseOfType(type: string, schema: AnySchema): string {
  switch (type) {
    case 'integer':
      return `a whole number${rangeOf(schema)}`
    case 'number':
      return `a number${rangeOf(schema)}`
    case 'boolean':
      return 'true or false'
    case 'string':
      return phraseOfText(schema)
    case 'array':
      return `a list${countOf(schema.minItems, schema.maxItems, 'item')}`
    case 'object':
      return 'an object'
    default:
      return type
  }
}

function phraseOfText({ format, minLength, maxLength }: AnySchema): string {
  if (format === 'date-time') return 'a time such as 2026-11-25T03:16:22Z'
  if (format !== undefined) return `a text in the format ${format}`
  return `a text${countOf(minLength, maxLength, 'character')}`
}

/** Beyond this a bound is only there so that no digit is lost. */
const boundMax = 1e14

function rangeOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: AnySchema): string {
  const least = minimum ?? exclusiveMinimum
  const most = maximum ?? exclusiveMaximum
  const hasMost = most !== undefined && most < boundMax
  const isClosed = exclusiveMinimum === undefined && exclusiveMaximum === undefined
  if (least !== undefined && hasMost && isClosed) return ` from ${grouped(least)} to ${grouped(most)}`
  return [
    minimum === undefined ? '' : `, ${grouped(minimum)} or more`,
    exclusiveMinimum === undefined ? '' : ` above ${grouped(exclusiveMinimum)}`,
    maximum === undefined || !hasMost ? '' : `, at most ${grouped(maximum)}`,
    exclusiveMaximum === undefined ? '' : ` below ${grouped(exclusiveMaximum)}`,
  ].join('')
}

function countOf(least = 0, most: number | undefined, one: string): string {
  if (most !== undefined && least > 0) return ` of ${grouped(least)} to ${grouped(most)} ${one}s`
  if (most !== undefined) return ` of at most ${grouped(most)} ${one}s`
  return least === 0 ? '' : ` of at least ${counted(least, one)}`
}

/** TypeBox names all fields that are missing or unknown in one fault. */
function wordsOf(fault: SchemaFault, schema: AnySchema, value: unknown): WordedFault[] {
  const { keyword, instancePath: path } = fault
  const params = fault.params as {
    additionalProperty?: string
    additionalProperties?: string[]
    missingProperty?: string
    requiredProperties?: string[]
    limit: number
    message?: string
  }
  const below = (name: string) => path + pointerPart(name)
  switch (keyword) {
    case 'additionalProperties': {
      const known = Object.keys(schema.properties ?? {})
      const names = params.additionalProperties ?? [params.additionalProperty!]
      return names.map((name) => ({ path: below(name), ...unknownField(name, known) }))
    }
    case 'required': {
      const names = params.requiredProperties ?? [params.missingProperty!]
      return names.map((name) => ({ path: below(name), fault: 'is required' }))
    }
    // A schema that is false: TypeBox names the unknown field, too.
    case 'boolean':
      return []
    case 'uniqueItems':
      return [{ path, rule: 'each item once' }]
    case '~refine':
      return [{ path, fault: params.message! }]
    default: {
      const one = countedParts[keyword]
      if (one === undefined) return [{ path, rule: phraseOf(schema), ...shownValue(path, schema, value) }]
      const rule = `at ${keyword.startsWith('max') ? 'most' : 'least'} ${counted(params.limit, one)}`
      const count = partsOf(value)
      return [{ path, rule, value: grouped(count), isPlural: count !== 1 }]
    }
  }
}

/** Keywords that limit the number of parts of a value. */
const countedParts: Readonly<Record<string, string>> = {
  maxItems: 'item',
  minItems: 'item',
  maxLength: 'character',
  minLength: 'character',
  maxProperties: 'field',
  minProperties: 'field',
}

function partsOf(value: unknown): number {
  return typeof value === 'string' ? [...value].length : Object.keys(value ?? {}).length
}

/** The fault of a field of this name. */
export function unknownField(name: string, known: readonly string[]): Omit<WordedFault, 'path'> {
  const meant = nearestName(name, known)
  if (meant !== null) return { fault: 'is not a known field', meant }
  const others = known.length === 0 || known.length > namesMax ? '' : `; there are ${known.join(', ')}`
  return { fault: `is not a known field${others}` }
}

/** Fields and variables whose value is never shown. */
const secretNames = /key|password|secret|token|signature|credential|cookie|nonce|authorization/i

function shownValue(path: string, schema: AnySchema, value: unknown): Pick<WordedFault, 'value' | 'meant'> {
  if (value === undefined || secretNames.test(path)) return {}
  const names = (schema.enum ?? []).filter((one) => typeof one === 'string')
  const meant = typeof value === 'string' ? nearestName(value, names) : null
  return { value: visible(value), ...(meant === null ? {} : { meant }) }
}

/** Any value in a few words, on one line. */
export function visible(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value))
    return value.length === 0 ? 'an empty list' : `a list of ${counted(value.length, 'item')}`
  if (typeof value === 'number')
    return Number.isFinite(value) ? grouped(value) : 'a number that no double holds'
  if (typeof value === 'object') return 'an object'
  if (typeof value !== 'string') return String(value)
  const isLong = value.length > valueLengthMax
  return oneLine(JSON.stringify(isLong ? `${value.slice(0, valueLengthMax).toWellFormed()}…` : value))
}

function plain(value: unknown): string {
  return typeof value === 'string' && value !== '' ? oneLine(value) : visible(value)
}

/** `a`, `a or b`, `a, b, or c`; phrases may have commas. */
function choiceOf(phrases: readonly string[]): string {
  const needsCommas = phrases.length > 2 || phrases.some((phrase) => phrase.includes(','))
  if (!needsCommas || phrases.length < 2) return phrases.join(' or ')
  return [...phrases.slice(0, -1), `or ${phrases.at(-1)}`].join(', ')
}

/** `a`, `a or b`, `one of a, b, c`. */
function listOf(names: readonly string[]): string {
  if (names.length < 3) return names.join(' or ')
  const more = names.length - namesMax
  const shown = names.slice(0, namesMax).join(', ')
  return `one of ${shown}${more > 0 ? ` and ${more} more` : ''}`
}

const isUnion = ({ keyword }: SchemaFault) => keyword === 'anyOf'

/** Where the choices of a union are; Ajv names the keyword in the path, TypeBox does not. */
function choicesAt({ schemaPath, keyword }: SchemaFault): string {
  return schemaPath.endsWith(`/${keyword}`) ? `${schemaPath}/` : `${schemaPath}/${keyword}/`
}

function isWithin(inner: SchemaFault, union: SchemaFault): boolean {
  const { instancePath } = union
  const isBelow = inner.instancePath === instancePath || inner.instancePath.startsWith(`${instancePath}/`)
  return isBelow && inner.schemaPath.startsWith(choicesAt(union))
}

/** Keeps of a union the faults of the one choice that the value is near to, or the union itself. */
function withoutChoices(faults: readonly SchemaFault[]): SchemaFault[] {
  const unions = faults.filter(isUnion)
  const outer = unions.filter((one) => !unions.some((other) => isWithin(one, other)))
  return faults
    .filter((fault) => !outer.some((union) => isWithin(fault, union)))
    .flatMap((fault) => (isUnion(fault) ? nearestChoice(fault, faults) : [fault]))
}

/** Faults that say that a value is of another kind than the choice. */
const ofKind: ReadonlySet<string> = new Set(['type', 'const', 'enum'])

function nearestChoice(union: SchemaFault, faults: readonly SchemaFault[]): SchemaFault[] {
  const at = choicesAt(union)
  const within = faults.filter((fault) => isWithin(fault, union))
  const choices = Map.groupBy(within, ({ schemaPath }) => Number.parseInt(schemaPath.slice(at.length), 10))
  const near = [...choices.values()].filter(
    (found) =>
      !found.some(({ instancePath, keyword }) => instancePath === union.instancePath && ofKind.has(keyword)),
  )
  if (near.length === 0) return [union]
  return withoutChoices(near.reduce((best, one) => (one.length < best.length ? one : best)))
}

/** The schema that has the keyword which a value breaks. */
function schemaAt(root: unknown, { schemaPath, keyword }: SchemaFault): AnySchema {
  const hasKeyword = schemaPath.endsWith(`/${keyword}`) && !schemaPath.endsWith(`/properties/${keyword}`)
  const path = hasKeyword ? schemaPath.slice(0, -keyword.length - 1) : schemaPath
  return (valueAt(root, decodeURIComponent(path.slice(1))) ?? {}) as AnySchema
}

/** The value at a JSON Pointer, undefined where there is none. */
function valueAt(root: unknown, pointer: string): unknown {
  let value = root
  for (const part of pointer.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}
