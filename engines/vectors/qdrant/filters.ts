/**
 * Filters in Qdrant. Equality is answered by the words of a payload, all other conditions by its values, which lie by path and
 * kind, so that Qdrant reads them as the other drivers do.
 */

import { hash } from 'node:crypto'
import { createLru } from '#lib/lru.ts'
import { boundsOf, eachValue, isScalar, tokenOf } from '../filter.ts'
import type {
  Filter,
  FilterCondition,
  FilterMatch,
  FilterValue,
  Payload,
  PayloadIndexType,
  PayloadValue,
} from '../port.ts'
import { microsOf, wordsOf } from '../values.ts'

export const tokensField = 'tokens'
export const deletedAtField = 'deletedAt'
export const embedderField = 'embedder'
/** Milliseconds since 1970, compared with the clock of this process; absent where a point stays. */
export const expiresAtField = 'expiresAt'
const valuesField = 'values'
/** Microseconds since 1970; absent where `updated_at` is no time. */
export const updatedAtField = 'updatedAt'
/** Says how the values of a point are kept; points of earlier releases have none. */
export const shapeField = 'shape'
export const shape = 1

/** Points of earlier releases, which have no values. */
export const withoutValues = {
  must: [{ is_empty: { key: deletedAtField } }, { is_empty: { key: shapeField } }],
}

type Kept<T> = Record<string, T>

/** The values of a payload by the names of their paths. */
export interface PayloadValues {
  /** Words of all values; `nothing` and `something` are those of null, and of objects and of arrays in arrays. */
  k: Kept<string[]>
  numbers: Kept<number[]>
  /** Microseconds since 1970. */
  times: Kept<number[]>
  /** The words of its texts, with a space at both ends of each: Qdrant looks for parts of a text. */
  texts: Kept<string>
}

const nothing = 'nothing'
const something = 'something'

/** Points have the same paths again and again. */
const names = createLru<string, string>(1_000)
const keptLengthMax = 200

/** A path may have any characters, a name in Qdrant's paths only these: 66 bits of SHA-256 as base64url. */
function nameOf(path: string): string {
  if (path.length > keptLengthMax) return hashOf(path)
  let name = names.get(path)
  if (name === undefined) {
    name = hashOf(path)
    names.set(path, name)
  }
  return name
}

function hashOf(path: string): string {
  return hash('sha256', path, 'base64url').slice(0, 11)
}

export function valuesOf(payload: Payload): PayloadValues {
  const paths = new Map<string, PayloadValue[]>()
  eachValue(payload, (path, value) => {
    const there = paths.get(path)
    if (there) there.push(value)
    else paths.set(path, [value])
  })
  const values: PayloadValues = { k: {}, numbers: {}, times: {}, texts: {} }
  const { k, numbers, times, texts } = values
  for (const [path, found] of paths) {
    // Null alone is empty; an array that holds it is not.
    if (found.length === 1 && found[0] === null && !isList(payload, path)) continue
    const name = nameOf(path)
    k[name] = [...new Set(found.map((value) => wordOf(path, value)))]
    const ofPath = found.filter((value) => typeof value === 'number')
    if (ofPath.length > 0) numbers[name] = ofPath
    const strings = found.filter((value) => typeof value === 'string')
    const micros = strings.flatMap((text) => microsOf(text) ?? [])
    if (micros.length > 0) times[name] = micros
    const words = [...new Set(strings.flatMap((text) => wordsOf(text).all))]
    if (words.length > 0) texts[name] = ` ${words.join(' ')} `
  }
  return values
}

function isList(payload: Payload, path: string): boolean {
  let value: PayloadValue = payload
  for (const key of path.split('.')) value = (value as Payload)[key]!
  return Array.isArray(value)
}

function wordOf(path: string, value: PayloadValue): string {
  if (value === null) return nothing
  return isScalar(value) ? tokenOf(path, value) : something
}

/** Whether points need their values for it. */
export function needsValues(filter: Filter | undefined): boolean {
  const { must = [], should = [], must_not = [] } = filter ?? {}
  return [...must, ...should, ...must_not].some((condition) => {
    if ('is_empty' in condition || 'range' in condition) return true
    if (!('key' in condition)) return needsValues(condition)
    return 'except' in condition.match || 'text' in condition.match
  })
}

/** Points that have expired by now. */
export const hasExpired = () => ({ key: expiresAtField, range: { lte: Date.now() } })

/** Qdrant's filter for ours; points that are deleted, or have expired by now, match none. */
export function toQdrantFilter(filter: Filter | undefined) {
  const { must = [], should = [], must_not = [] } = filter ?? {}
  return {
    must: [{ is_empty: { key: deletedAtField } }, ...must.map(toCondition)],
    ...(should.length === 0 ? {} : { should: should.map(toCondition) }),
    must_not: [hasExpired(), ...must_not.map(toCondition)],
  }
}

function toCondition(condition: FilterCondition): object {
  if ('is_empty' in condition) return { is_empty: { key: fieldOf('k', condition.is_empty.key) } }
  if (!('key' in condition)) {
    const { must = [], should = [], must_not = [] } = condition
    return {
      must: must.map(toCondition),
      ...(should.length === 0 ? {} : { should: should.map(toCondition) }),
      must_not: must_not.map(toCondition),
    }
  }
  if ('match' in condition) return toMatch(condition.key, condition.match)
  const { isTime, ...range } = boundsOf(condition.range)
  return { key: fieldOf(isTime ? 'times' : 'numbers', condition.key), range }
}

function toMatch(path: string, match: FilterMatch): object {
  if ('value' in match) return { key: tokensField, match: { value: tokenOf(path, match.value) } }
  if ('any' in match) return { key: tokensField, match: { any: wordsFor(path, match.any) } }
  if ('except' in match) {
    return { key: fieldOf('k', path), match: { except: [...wordsFor(path, match.except), nothing] } }
  }
  const key = fieldOf('texts', path)
  return { must: wordsOf(match.text).whole.map((word) => ({ key, match: { text: ` ${word} ` } })) }
}

/** Qdrant wants each once. */
function wordsFor(path: string, values: readonly FilterValue[]): string[] {
  return [...new Set(values.map((value) => tokenOf(path, value)))]
}

/** Field of the payload → its index in Qdrant, for filters on the key. */
export function indexesOf(key: string, type: PayloadIndexType): [field: string, schema: object | string][] {
  const keywords: [string, string] = [fieldOf('k', key), 'keyword']
  if (type === 'number') return [keywords, [fieldOf('numbers', key), 'float']]
  if (type === 'time') return [keywords, [fieldOf('times', key), 'integer']]
  if (type === 'keyword') return [keywords]
  // The words are kept as they are compared.
  const words = { type: 'text', tokenizer: 'whitespace', lowercase: false }
  return [keywords, [fieldOf('texts', key), words]]
}

/** True for a field of `indexesOf`. */
export const isValueField = (field: string) => field.startsWith(`${valuesField}.`)

function fieldOf(kind: keyof PayloadValues, path: string): string {
  return `${valuesField}.${kind}.${nameOf(path)}`
}
