/** Filters as people write them: conditions separated by commas. */

import type { Filter, FilterCondition, FilterValue } from './filter.ts'

/** One condition as it is written. */
const written = /^([^=<>!~]+)(!=|>=|<=|=|>|<|~)(.*)$/
const rangeOf = { '>': 'gt', '>=': 'gte', '<': 'lt', '<=': 'lte' } as const

/** The conditions of a text; anything else in it is left out. */
export function writtenConditions(where: string): string[] {
  return where
    .split(',')
    .map((one) => one.trim())
    .filter((one) => written.test(one))
}

/**
 * The filter of `key=value`, `key=one|two`, `key!=value`, `key>5`, `key<=2026-01-31`, `key~some words`, separated by commas; `key=`
 * and `key!=` are for keys that are empty and that are not. Numbers, true and false are meant as such. Undefined without conditions.
 */
export function filterWhere(where: string): Filter | undefined {
  const must: FilterCondition[] = []
  const mustNot: FilterCondition[] = []
  for (const one of writtenConditions(where)) {
    const [, name = '', sign = '', rest = ''] = written.exec(one) ?? []
    const key = name.trim()
    const value = rest.trim()
    if (sign === '~') must.push({ key, match: { text: value } })
    else if (sign === '=' || sign === '!=') (sign === '=' ? must : mustNot).push(equalTo(key, value))
    else must.push({ key, range: { [rangeOf[sign as keyof typeof rangeOf]]: numberOr(value) } })
  }
  if (must.length + mustNot.length === 0) return undefined
  return { ...(must.length > 0 && { must }), ...(mustNot.length > 0 && { must_not: mustNot }) }
}

function equalTo(key: string, value: string): FilterCondition {
  if (value === '') return { is_empty: { key } }
  const values = value.split('|').map((one) => literalOf(one.trim()))
  return { key, match: values.length === 1 ? { value: values[0]! } : { any: values } }
}

function literalOf(text: string): FilterValue {
  return text === 'true' || text === 'false' ? text === 'true' : numberOr(text)
}

function numberOr(text: string): number | string {
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}
