/** Whether a payload matches a filter, said as plainly as can be: each kind of condition by itself, with nothing prepared. */

import type { Filter, FilterCondition, Payload, PayloadValue } from '#engines/vectors/port.ts'

export function plainlyMatches(payload: Payload, filter: Filter): boolean {
  const holds = (condition: FilterCondition) => conditionHolds(payload, condition)
  if (filter.must && !filter.must.every(holds)) return false
  if (filter.should && filter.should.length > 0 && !filter.should.some(holds)) return false
  return !filter.must_not?.some(holds)
}

function conditionHolds(payload: Payload, condition: FilterCondition): boolean {
  if ('is_empty' in condition) {
    const value = lookUp(payload, condition.is_empty.key)
    return value === undefined || value === null || JSON.stringify(value) === '[]'
  }
  if (!('key' in condition)) return plainlyMatches(payload, condition)
  const found = lookUp(payload, condition.key)
  if (found === undefined) return false
  const values = Array.isArray(found) ? found : [found]
  if ('range' in condition) {
    const { gt, gte, lt, lte } = condition.range
    return values.some((value) => {
      const number = comparable(value, [gt, gte, lt, lte])
      const bound = (given: number | string) => (typeof given === 'string' ? Date.parse(given) : given)
      if (number === undefined) return false
      if (gt !== undefined && !(number > bound(gt))) return false
      if (gte !== undefined && !(number >= bound(gte))) return false
      if (lt !== undefined && !(number < bound(lt))) return false
      return lte === undefined || number <= bound(lte)
    })
  }
  const { match } = condition
  if ('value' in match) return values.some((value) => value === match.value)
  if ('any' in match) return match.any.some((wanted) => values.some((value) => value === wanted))
  if ('except' in match) {
    return values.some((value) => value !== null && !match.except.some((one) => one === value))
  }
  const there = values.flatMap((value) => (typeof value === 'string' ? plainWords(value) : []))
  return plainWords(match.text).every((word) => there.includes(word))
}

function lookUp(payload: Payload, key: string): PayloadValue | undefined {
  let value: PayloadValue | undefined = payload
  for (const name of key.split('.')) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    value = Object.entries(value).find(([known]) => known === name)?.[1]
  }
  return value
}

/** Texts of the suites are times in one form, of which Date.parse knows as much. */
function comparable(value: PayloadValue, bounds: (number | string | undefined)[]): number | undefined {
  if (bounds.some((bound) => typeof bound === 'string')) {
    const isTime =
      typeof value === 'string' && /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/.test(value)
    // Which Date.parse takes for a day of March.
    return isTime && !value.includes('-02-30') ? Date.parse(value) : undefined
  }
  return typeof value === 'number' ? value : undefined
}

/** For words of letters that have a small form and marks that NFKD takes apart. */
function plainWords(text: string): string[] {
  return (
    text
      .normalize('NFKD')
      .replaceAll(/\p{M}/gu, '')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  )
}
