/** Conditions as they are written in the console's search, and the filters that they mean. */

import { expect, test } from 'vitest'
import {
  asksForAuditNotes,
  filterOf,
  withCondition,
  withoutCondition,
  writtenConditions,
} from '../../../console/src/data/where.ts'

test('each kind of condition', () => {
  const is = (key: string, value: string | number | boolean) => ({ key, match: { value } })
  expect(filterOf('status=active, n=5,flag=true')).toEqual({
    must: [is('status', 'active'), is('n', 5), is('flag', true)],
  })
  expect(filterOf('status=active|open, n=1|x')).toEqual({
    must: [
      { key: 'status', match: { any: ['active', 'open'] } },
      { key: 'n', match: { any: [1, 'x'] } },
    ],
  })
  expect(filterOf('status!=closed, a.b~two words')).toEqual({
    must: [{ key: 'a.b', match: { text: 'two words' } }],
    must_not: [is('status', 'closed')],
  })
  expect(filterOf('n>1, n>=2, n<3, updated_at<=2026-01-31T12:00:00Z')).toEqual({
    must: [
      { key: 'n', range: { gt: 1 } },
      { key: 'n', range: { gte: 2 } },
      { key: 'n', range: { lt: 3 } },
      { key: 'updated_at', range: { lte: '2026-01-31T12:00:00Z' } },
    ],
  })
  expect(filterOf('n=, m!=')).toEqual({
    must: [{ is_empty: { key: 'n' } }],
    must_not: [{ is_empty: { key: 'm' } }],
  })
  expect(filterOf('title=a=b')).toEqual({ must: [is('title', 'a=b')] })
  for (const none of ['', ' , ', 'words', '=x']) expect(filterOf(none)).toBeUndefined()
})

test('a condition is added and taken back', () => {
  expect(writtenConditions(withCondition('', 'n=1'))).toEqual(['n=1'])
  expect(withCondition('n=1', 'm=2')).toBe('n=1, m=2')
  expect(withoutCondition('n=1, m=2,n=3', 'm=2')).toBe('n=1, n=3')
  expect(withoutCondition('n=1', 'n=1')).toBe('')
})

test('audit notes are asked for by tag or operation', () => {
  for (const where of ['tags=auth', 'tags=x|vector', 'operation=search', 'operation~search']) {
    expect(asksForAuditNotes(where), where).toBe(true)
  }
  for (const where of ['', 'tags!=auth', 'tags=note', 'status=auth'])
    expect(asksForAuditNotes(where)).toBe(false)
})
