/** The conditions of the console's search in its address. */

import { expect, test } from 'vitest'
import { asksForAuditNotes, withCondition, withoutCondition } from '../../../console/src/data/where.ts'
import { writtenConditions } from '../../../packages/client/src/where.ts'

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
