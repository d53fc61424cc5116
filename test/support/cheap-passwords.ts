/**
 * Vitest's set-up of suites that open platforms in their own process: a password is hashed in a millisecond there, and not at
 * the cost of today, which takes a core half a second and 128 MiB. test/unit/services/access/people/passwords.test.ts has that.
 */

import { vi } from 'vitest'

vi.mock('#services/access/people/passwords.ts', async (original) => {
  const passwords = await original<typeof import('#services/access/people/passwords.ts')>()
  const cheap = { ln: 4, r: 8, p: 1 }
  return {
    ...passwords,
    createPasswords: (cost = cheap) => passwords.createPasswords(cost),
  }
})
