/**
 * The one meaning of a filter, which all drivers share: whether a payload matches, and the short words of a payload, one per path
 * and value, by which an index of words answers equality.
 */

import { hash } from 'node:crypto'
import type {
  Filter,
  FilterCondition,
  FilterMatch,
  FilterRange,
  FilterValue,
  Payload,
  PayloadValue,
} from './port.ts'
import { microsOf, wordsOf } from './values.ts'

/** Whether a payload matches; no filter matches everything. Made once for many payloads. */
export type PayloadTest = (payload: Payload) => boolean

export function compileFilter(filter: Filter | undefined): PayloadTest {
  const { must = [], should = [], must_not = [] } = filter ?? {}
  const [all, some, none] = [must, should, must_not].map((conditions) => conditions.map(compileCondition))
  return (payload) => {
    const met = (test: PayloadTest) => test(payload)
    return all!.every(met) && (some!.length === 0 || some!.some(met)) && !none!.some(met)
  }
}

function compileCondition(condition: FilterCondition): PayloadTest {
  if ('is_empty' in condition) {
    const path = condition.is_empty.key.split('.')
    return (payload) => isEmpty(valueAt(payload, path))
  }
  if (!('key' in condition)) return compileFilter(condition)
  const path = condition.key.split('.')
  if ('range' in condition) {
    const test = compileRange(condition.range)
    return (payload) => valuesAt(payload, path).some(test)
  }
  const { match } = condition
  if ('text' in match) {
    const { whole } = wordsOf(match.text)
    return (payload) => hasWords(valuesAt(payload, path), whole)
  }
  const test = compileMatch(match)
  return (payload) => valuesAt(payload, path).some(test)
}

function compileMatch(match: Exclude<FilterMatch, { text: string }>): (value: PayloadValue) => boolean {
  if ('value' in match) return (value) => value === match.value
  if ('any' in match) {
    const wanted = new Set<PayloadValue>(match.any)
    return (value) => wanted.has(value)
  }
  const excepted = new Set<PayloadValue>(match.except)
  return (value) => value !== null && !excepted.has(value)
}

function compileRange(range: FilterRange): (value: PayloadValue) => boolean {
  const { isTime, gt, gte, lt, lte } = boundsOf(range)
  return (value) => {
    const number = isTime ? timeOf(value) : value
    if (typeof number !== 'number') return false
    return (
      (gt === undefined || number > gt) &&
      (gte === undefined || number >= gte) &&
      (lt === undefined || number < lt) &&
      (lte === undefined || number <= lte)
    )
  }
}

/** As numbers; those of times are microseconds since 1970. */
export function boundsOf({ gt, gte, lt, lte }: FilterRange) {
  const isTime = [gt, gte, lt, lte].some((bound) => typeof bound === 'string')
  const numberOf = (bound: number | string | undefined) =>
    typeof bound === 'string' ? (microsOf(bound) ?? Number.NaN) : bound
  return { isTime, gt: numberOf(gt), gte: numberOf(gte), lt: numberOf(lt), lte: numberOf(lte) }
}

function timeOf(value: PayloadValue): number | undefined {
  return typeof value === 'string' ? microsOf(value) : undefined
}

function hasWords(values: readonly PayloadValue[], wanted: readonly string[]): boolean {
  const texts = values.filter((value) => typeof value === 'string')
  if (texts.length === 0 || wanted.length === 0) return false
  const there = new Set(texts.flatMap((text) => wordsOf(text).all))
  return wanted.every((word) => there.has(word))
}

/** Microseconds since 1970 of a payload's `updated_at`; undefined where that is no time. */
export function updatedAtOf(payload: Payload): number | undefined {
  return Object.hasOwn(payload, 'updated_at') ? timeOf(payload.updated_at!) : undefined
}

/** The path goes through objects only, and only through their own keys. */
function valueAt(payload: Payload, path: readonly string[]): PayloadValue | undefined {
  let value: PayloadValue | undefined = payload
  for (const key of path) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined
    value = value[key]
  }
  return value
}

function valuesAt(payload: Payload, path: readonly string[]): PayloadValue[] {
  const value = valueAt(payload, path)
  if (value === undefined) return []
  return Array.isArray(value) ? value : [value]
}

function isEmpty(value: PayloadValue | undefined): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

/** True for a JSON object: neither null nor an array nor a scalar. */
function isObject(value: PayloadValue | undefined): value is Payload {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A payload with more words than this is kept under `wideToken` alone; its matches are found by reading it. */
export const tokensMax = 512

/** The word of payloads with too many words. Never the word of a value: it is too short to be a hash. */
export const wideToken = '*'

/**
 * The word of a value at a dotted path: 16 characters of base64url (96 bits of SHA-256). The value goes in as JSON
 * text, so that 1 and "1" and true and "true" differ while 1 and 1.0 do not.
 */
export function tokenOf(path: string, value: FilterValue): string {
  return hash('sha256', `${path}\0${JSON.stringify(value)}`, 'base64url').slice(0, 16)
}

/**
 * What words say about a filter: a matching payload has every one of `all`, one of each list of `some`, and none of `none` (or else
 * `wideToken`). `decide`: a payload that has them so matches.
 */
export interface FilterTokens {
  all: string[]
  some: string[][]
  none: string[]
  decide: boolean
}

export function filterTokens(filter: Filter | undefined): FilterTokens {
  const { must = [], should = [], must_not = [] } = filter ?? {}
  const [all, none] = [must, must_not].map((conditions) => conditions.flatMap((one) => equalTo(one) ?? []))
  const anyOf = must.flatMap((one) => {
    const tokens = equalTo(one) ? undefined : oneOf(one)
    return tokens ? [tokens] : []
  })
  const others = should.map(oneOf)
  if (should.length > 0 && others.every((tokens) => tokens !== undefined)) anyOf.push(others.flat())
  const decided = all!.length === must.length && none!.length === must_not.length && should.length === 0
  return { all: [...new Set(all)], some: anyOf, none: [...new Set(none)], decide: decided }
}

function equalTo(condition: FilterCondition): string | undefined {
  if (!('key' in condition && 'match' in condition && 'value' in condition.match)) return undefined
  return tokenOf(condition.key, condition.match.value)
}

/** The words of which a payload that meets the condition has one; undefined where no words say so. */
function oneOf(condition: FilterCondition): string[] | undefined {
  const equal = equalTo(condition)
  if (equal !== undefined) return [equal]
  if (!('key' in condition && 'match' in condition && 'any' in condition.match)) return undefined
  return condition.match.any.map((value) => tokenOf(condition.key, value))
}

/** The words of a payload, each once; `[wideToken]` when there are more than `most`. */
export function payloadTokens(payload: Payload, most = tokensMax): string[] {
  const tokens = new Set<string>()
  const visit = (path: string, value: PayloadValue) => {
    if (isScalar(value) && tokens.size <= most) tokens.add(tokenOf(path, value))
  }
  eachValue(payload, visit, () => tokens.size > most)
  return tokens.size > most ? [wideToken] : [...tokens]
}

export function isScalar(value: PayloadValue | undefined): value is FilterValue {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

/**
 * Calls `visit` with every path that a filter can name, and each value there: an array's elements one by one, an object itself
 * and then its members. `enough` ends it.
 */
export function eachValue(
  payload: Payload,
  visit: (path: string, value: PayloadValue) => void,
  enough: () => boolean = () => false,
  prefix = '',
): void {
  for (const key of Object.keys(payload)) {
    // A key with a dot in it would be mistaken for a path: it cannot be filtered on.
    if (key.includes('.')) continue
    if (enough()) return
    const value = payload[key]!
    if (Array.isArray(value)) for (const element of value) visit(`${prefix}${key}`, element)
    else visit(`${prefix}${key}`, value)
    if (isObject(value)) eachValue(value, visit, enough, `${prefix}${key}.`)
  }
}
