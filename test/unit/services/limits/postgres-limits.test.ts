import { expect, test } from 'vitest'
import { SqlFault } from '#engines/relational/sql-faults.ts'
import { createPostgresLimits } from '#services/limits/postgres-limits.ts'
import type { LeaseAsk } from '#services/limits/shared-limits.ts'

const askOver = (state: string) =>
  createPostgresLimits({ query: () => Promise.reject(new SqlFault(state, 'somebody was in the way')) })
    .lease({} as LeaseAsk)
    .catch((error: unknown) => error)

test.each(['40P01', '40001', '55P03', '57014', '53200'])(
  'who meets a fault that passes (SQLSTATE %s) is told to come again',
  async (state) => {
    expect(await askOver(state)).toMatchObject({ code: 'relational_engine_unavailable', retryAfter: 1 })
  },
)

test('any other fault is shown as it is', async () => {
  expect(await askOver('42883')).toBeInstanceOf(SqlFault)
})
