/** Says whether a payload matches a filter: the one meaning of a filter, which all drivers share. */

import type { Filter, FilterCondition, Payload, PayloadValue } from './port.ts'

/** True when every condition of `filter` holds for `payload`. No filter and an empty one match everything. */
export function matches(payload: Payload, filter: Filter | undefined): boolean {
  return filter === undefined || filter.must.every((condition) => holds(payload, condition))
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
export function isObject(value: PayloadValue | undefined): value is Payload {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
