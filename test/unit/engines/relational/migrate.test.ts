/** Work is repeated while another instance is in its way. */

import { expect, test } from 'vitest'
import { changedAtOnce, createdAtOnce, lockedOut, whileRacing } from '#engines/relational/migrate.ts'
import { SqlFault } from '#engines/relational/sql-faults.ts'

const states = [...createdAtOnce, ...changedAtOnce, ...lockedOut]

test.each(states)('an instance that meets another one (SQLSTATE %s) tries again', async (state) => {
  let tries = 0
  const result = await whileRacing(states, 0, async () => {
    tries += 1
    if (tries < 3) throw new SqlFault(state, 'another was first')
    return 'done'
  })
  expect([result, tries]).toEqual(['done', 3])
})

test('every way in which creating the same thing at once shows is known: row, table, type or role, schema', () => {
  expect(createdAtOnce).toEqual(expect.arrayContaining(['23505', '42P07', '42710', '42P06']))
})

test('other faults are thrown at once, and a race that never ends in the end', async () => {
  let tries = 0
  const failing = (error: Error) => () => {
    tries += 1
    return Promise.reject(error)
  }
  const own = new SqlFault('42601', 'syntax error')
  await expect(whileRacing(states, 0, failing(own))).rejects.toBe(own)
  expect(tries).toBe(1)
  await expect(whileRacing(states, 0, failing(new SqlFault('42710', 'exists')))).rejects.toMatchObject({
    code: '42710',
  })
  expect(tries).toBe(21)
})
