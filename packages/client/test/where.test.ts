/** Conditions as people write them, and the filters that they mean. */

import { expect, test } from 'vitest'
import { filterWhere } from '../src/where.ts'

test('each kind of condition', () => {
  const is = (key: string, value: string | number | boolean) => ({ key, match: { value } })
  expect(filterWhere('status=active, n=5,flag=true')).toEqual({
    must: [is('status', 'active'), is('n', 5), is('flag', true)],
  })
  expect(filterWhere('status=active|open, n=1|x')).toEqual({
    must: [
      { key: 'status', match: { any: ['active', 'open'] } },
      { key: 'n', match: { any: [1, 'x'] } },
    ],
  })
  expect(filterWhere('status!=closed, a.b~two words')).toEqual({
    must: [{ key: 'a.b', match: { text: 'two words' } }],
    must_not: [is('status', 'closed')],
  })
  expect(filterWhere('n>1, n>=2, n<3, updated_at<=2026-01-31T12:00:00Z')).toEqual({
    must: [
      { key: 'n', range: { gt: 1 } },
      { key: 'n', range: { gte: 2 } },
      { key: 'n', range: { lt: 3 } },
      { key: 'updated_at', range: { lte: '2026-01-31T12:00:00Z' } },
    ],
  })
  expect(filterWhere('n=, m!=')).toEqual({
    must: [{ is_empty: { key: 'n' } }],
    must_not: [{ is_empty: { key: 'm' } }],
  })
  expect(filterWhere('title=a=b')).toEqual({ must: [is('title', 'a=b')] })
  for (const none of ['', ' , ', 'words', '=x']) expect(filterWhere(none)).toBeUndefined()
})
