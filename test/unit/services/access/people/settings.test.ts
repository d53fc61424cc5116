/** Where people sign in is one place besides the platform's own passwords, and a wrong choice stops the start. */

import { expect, test } from 'vitest'
import { checkPeopleSettings } from '#services/access/people/settings.ts'

const oidc = { OIDC_ISSUER: 'https://login.example.com', OIDC_CLIENT_ID: 'flotilla' }

test.each([{}, oidc, { ...oidc, OIDC_CLIENT_SECRET: 's' }, { FIREBASE_PROJECT_ID: 'demo' }])(
  '%j is fine',
  (env) => {
    checkPeopleSettings(env)
  },
)

test('a provider on this machine may speak http', () => {
  checkPeopleSettings({ ...oidc, OIDC_ISSUER: 'http://127.0.0.1:3000' })
})

test.each([
  [{ ...oidc, FIREBASE_PROJECT_ID: 'demo' }, ['OIDC_ISSUER']],
  [{ OIDC_ISSUER: 'https://login.example.com' }, ['OIDC_CLIENT_ID']],
  [{ OIDC_CLIENT_ID: 'flotilla' }, ['OIDC_ISSUER']],
  [{ OIDC_CLIENT_SECRET: 'hush hush' }, ['OIDC_ISSUER']],
  [{ ...oidc, OIDC_ISSUER: 'http://login.example.com' }, ['OIDC_ISSUER']],
  [{ ...oidc, OIDC_ISSUER: 'ftp://127.0.0.1' }, ['OIDC_ISSUER']],
  [
    { OIDC_ISSUER: 'http://login.example.com', FIREBASE_PROJECT_ID: 'demo' },
    ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_ISSUER'],
  ],
])('%j stops the start with one message', (env, paths) => {
  let fault: { code?: string; message?: string; errors?: { path: string }[] } = {}
  try {
    checkPeopleSettings(env)
  } catch (error) {
    fault = error as typeof fault
  }
  expect([fault.code, fault.errors?.map(({ path }) => path)]).toEqual(['invalid_configuration', paths])
  expect(fault.message).not.toContain('hush hush')
})
