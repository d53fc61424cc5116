/** What the issuer is named, whose tokens count, and which settings are refused. */

import { expect, test } from 'vitest'
import { checkIdentitySettings, identityExchangeUrl } from '#engines/identity/settings.ts'
import { loadConfig } from '#lib/config.ts'
import { issuerName, tokenSettings } from '#services/access/provider/provider.ts'

test('the setting is the name, without a slash at its end, and the only one that counts', () => {
  const issuer = issuerName('https://api.example.org/', () => 8_081)
  expect(issuer.name()).toBe('https://api.example.org')
  expect(issuer.isOurs('https://api.example.org')).toBe(true)
  for (const other of ['https://api.example.org/', 'http://127.0.0.1:8081', '']) {
    expect(issuer.isOurs(other)).toBe(false)
  }
})

test('without it the name is the port, and any port of this machine counts', () => {
  let port: number | undefined
  const issuer = issuerName(undefined, () => port)
  expect(() => issuer.name()).toThrow(/no address yet/)
  port = 8_081
  expect(issuer.name()).toBe('http://127.0.0.1:8081')
  expect(issuer.isOurs('http://127.0.0.1:9999')).toBe(true)
  for (const other of ['http://127.0.0.1:8081/', 'http://127.0.0.1', 'http://10.0.0.1:8081', 'x']) {
    expect(issuer.isOurs(other)).toBe(false)
  }
})

test.each([
  ['https://api.example.org', true],
  ['http://10.0.0.5:8081/', true],
  ['https://api.example.org/api', false],
  ['https://user@api.example.org', false],
  ['ftp://api.example.org', false],
  ['api.example.org', false],
])('MAIN_API_URL=%s: %s', (MAIN_API_URL, fits) => {
  const load = () => loadConfig(tokenSettings, { MAIN_API_URL })
  if (fits) expect(load().CUSTOM_TOKEN_TTL_S).toBe(3_600)
  else expect(load).toThrow(/MAIN_API_URL must be an address/)
})

test('the emulator is refused in production, and without a project', () => {
  const FIREBASE_AUTH_EMULATOR_HOST = '127.0.0.1:9099'
  const FIREBASE_PROJECT_ID = 'demo-x'
  const production = { FIREBASE_AUTH_EMULATOR_HOST, FIREBASE_PROJECT_ID, NODE_ENV: 'production' }
  expect(() => checkIdentitySettings(production)).toThrow(/NODE_ENV is production/)
  expect(() => checkIdentitySettings({ FIREBASE_AUTH_EMULATOR_HOST })).toThrow(/FIREBASE_PROJECT_ID/)
  checkIdentitySettings({ FIREBASE_AUTH_EMULATOR_HOST, FIREBASE_PROJECT_ID })
  checkIdentitySettings({ FIREBASE_PROJECT_ID, NODE_ENV: 'production' })
})

test('custom tokens are traded here, at Google, or at the emulator', () => {
  const local = 'http://127.0.0.1:8081'
  const path = 'identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken'
  expect(identityExchangeUrl({}, local)).toBe(`${local}/${path}`)
  expect(identityExchangeUrl({ FIREBASE_PROJECT_ID: 'x' }, local)).toBe(`https://${path}`)
  const emulated = { FIREBASE_PROJECT_ID: 'x', FIREBASE_AUTH_EMULATOR_HOST: '127.0.0.1:9099' }
  expect(identityExchangeUrl(emulated, local)).toBe(`http://127.0.0.1:9099/${path}`)
})
