/** Conditions as people write them in the field "Where", separated by commas, and the filter that they mean. */

import type { components } from '../schema.d.ts'

export type Filter = NonNullable<components['schemas']['CollectionSearch']['filter']>
type Condition = NonNullable<Filter['must']>[number]

/** One condition as it is written. */
const written = /^([^=<>!~]+)(!=|>=|<=|=|>|<|~)(.*)$/
const rangeOf = { '>': 'gt', '>=': 'gte', '<': 'lt', '<=': 'lte' } as const

/** The conditions of the field; anything else in it is left out. */
export function writtenConditions(where: string): string[] {
  return where
    .split(',')
    .map((one) => one.trim())
    .filter((one) => written.test(one))
}

/**
 * `key=value`, `key=one|two`, `key!=value`, `key>5`, `key<=2026-01-31`, `key~some words`; `key=` and `key!=` for keys that are empty
 * and that are not. Numbers, true and false are meant as such.
 */
export function filterOf(where: string): Filter | undefined {
  const must: Condition[] = []
  const mustNot: Condition[] = []
  for (const one of writtenConditions(where)) {
    const [, name = '', sign = '', rest = ''] = written.exec(one) ?? []
    const key = name.trim()
    const value = rest.trim()
    if (sign === '~') must.push({ key, match: { text: value } })
    else if (sign === '=' || sign === '!=') (sign === '=' ? must : mustNot).push(equalTo(key, value))
    else must.push({ key, range: { [rangeOf[sign as keyof typeof rangeOf]]: literalOf(value) } })
  }
  if (must.length + mustNot.length === 0) return undefined
  return { ...(must.length > 0 && { must }), ...(mustNot.length > 0 && { must_not: mustNot }) }
}

function equalTo(key: string, value: string): Condition {
  if (value === '') return { is_empty: { key } }
  const values = value.split('|').map((one) => literalOf(one.trim()))
  return { key, match: values.length === 1 ? { value: values[0]! } : { any: values } }
}

function literalOf(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}

export function withCondition(where: string, condition: string): string {
  return where === '' ? condition : `${where}, ${condition}`
}

export function withoutCondition(where: string, condition: string): string {
  const left = writtenConditions(where)
  left.splice(left.indexOf(condition), 1)
  return left.join(', ')
}

/** As the main API takes it. */
export function asksForAuditNotes(where: string): boolean {
  return (filterOf(where)?.must ?? []).some(({ key, match }) => {
    const values = [match?.value, ...(match?.any ?? [])]
    return key === 'operation' || (key === 'tags' && (values.includes('auth') || values.includes('vector')))
  })
}
