/**
 * The one meaning of a filter, which all drivers share: whether a payload matches, and the short words of a payload, one per path
 * and value, by which an index of words answers any equality filter.
 */

import { hash } from 'node:crypto'
import type { Filter, FilterCondition, Payload, PayloadValue } from './port.ts'

/**
 * True when every condition of `must` holds for `payload`, and none of `must_not`. No filter and an empty one match
 * everything.
 */
export function matches(payload: Payload, filter: Filter | undefined): boolean {
  if (filter === undefined) return true
  const met = (condition: FilterCondition) => holds(payload, condition)
  return filter.must.every(met) && !filter.must_not?.some(met)
}

/**
 * True when the value at the condition's dotted path equals the wanted one by value and type, or is an array that holds
 * it. The path goes through objects only, and only through their own keys.
 */
function holds(payload: Payload, condition: FilterCondition): boolean {
  let value: PayloadValue | undefined = payload
  for (const key of condition.key.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return false
    value = value[key]
  }
  return Array.isArray(value) ? value.includes(condition.match.value) : value === condition.match.value
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
function tokenOf(path: string, value: string | number | boolean): string {
  return hash('sha256', `${path}\0${JSON.stringify(value)}`, 'base64url').slice(0, 16)
}

/** Words of a filter, each once: a matching payload has every one of `all` (or else `wideToken`) and none of `none`. */
export interface FilterTokens {
  all: string[]
  none: string[]
}

export function filterTokens(filter: Filter | undefined): FilterTokens {
  return { all: tokensFor(filter?.must), none: tokensFor(filter?.must_not) }
}

function tokensFor(conditions: readonly FilterCondition[] = []): string[] {
  return [...new Set(conditions.map(({ key, match }) => tokenOf(key, match.value)))]
}

/** The words of a payload, each once; `[wideToken]` when there are more than `most`. */
export function payloadTokens(payload: Payload, most = tokensMax): string[] {
  const tokens = new Set<string>()
  collect(payload, '', tokens, most)
  return tokens.size > most ? [wideToken] : [...tokens]
}

function collect(object: Payload, prefix: string, tokens: Set<string>, most: number): void {
  for (const key of Object.keys(object)) {
    // A key with a dot in it would be mistaken for a path, so it has no words: it cannot be filtered on.
    if (key.includes('.')) continue
    if (tokens.size > most) return
    const value = object[key]
    if (isObject(value)) collect(value, `${prefix}${key}.`, tokens, most)
    else if (Array.isArray(value)) for (const element of value) add(`${prefix}${key}`, element, tokens, most)
    else add(`${prefix}${key}`, value, tokens, most)
  }
}

function add(path: string, value: PayloadValue | undefined, tokens: Set<string>, most: number): void {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return
  if (tokens.size <= most) tokens.add(tokenOf(path, value))
}
