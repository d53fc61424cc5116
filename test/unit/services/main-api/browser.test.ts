/** Under which origin browsers know the main API, directly and behind proxies. */

import { expect, test } from 'vitest'
import { cookieOptions, ownOriginOf, returnOriginOf } from '#services/main-api/browser.ts'

test.each([
  [undefined, 'http', '127.0.0.1:8081', 'http://127.0.0.1:8081'],
  [undefined, 'https', 'fleet.example', 'https://fleet.example'],
  ['https://fleet.example', 'http', 'fleet.example', 'https://fleet.example'],
  ['https://fleet.example:443/', 'http', 'fleet.example', 'https://fleet.example'],
  ['https://fleet.example', 'http', '127.0.0.1:8081', 'http://127.0.0.1:8081'],
  ['https://fleet.example', 'http', 'evil.example', 'http://evil.example'],
  ['https://fleet.example:8443', 'http', 'fleet.example', 'http://fleet.example'],
] as const)('with MAIN_API_URL %s, %s://%s is %s', (publicUrl, protocol, host, origin) => {
  expect(ownOriginOf(publicUrl)({ protocol, host })).toBe(origin)
})

test.each([
  [undefined, 'http', '127.0.0.1:8081', 'http://127.0.0.1:8081'],
  ['https://fleet.example/', 'http', 'fleet.example', 'https://fleet.example'],
  ['https://fleet.example', 'http', 'evil.example', 'https://fleet.example'],
  ['https://fleet.example', 'https', 'evil.example', 'https://fleet.example'],
] as const)(
  'with MAIN_API_URL %s a provider sends who asked %s://%s back to %s',
  (url, protocol, host, origin) => {
    expect(returnOriginOf(url)({ protocol, host })).toBe(origin)
  },
)

test('cookies are Secure where the origin is', () => {
  expect(cookieOptions('https://fleet.example', 'strict', 1)).toMatchObject({ secure: true, httpOnly: true })
  expect(cookieOptions('http://127.0.0.1:8081', 'lax', 1)).toMatchObject({ secure: false, sameSite: 'lax' })
})
