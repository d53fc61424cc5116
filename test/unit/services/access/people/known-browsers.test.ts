/** Which cookies count as those of a browser that signed in before. */

import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createKnownBrowsers, knownBrowserTtlS } from '#services/access/people/sign-in-limits.ts'
import { parseSecretKey } from '#services/access/secrets/sealing.ts'

const newKey = () => parseSecretKey(randomBytes(32).toString('hex'))!

test('a cookie counts for the account that it was given to, for half a year', () => {
  let now = 1_750_000_000_000
  const browsers = createKnownBrowsers(newKey(), () => now)
  const cookie = browsers.cookieFor('Ana@x', undefined)
  const id = browsers.idOf(cookie, 'ana@X')
  expect(id).toMatch(/^[\w-]{22}$/)
  expect(browsers.anyIdOf(cookie)).toBe(id)
  expect(browsers.idOf(cookie, 'bea@x')).toBeUndefined()
  // U+212A folds to k, and is in another address.
  expect(browsers.idOf(browsers.cookieFor('kim@x', undefined), '\u212aim@x')).toBeUndefined()
  expect(browsers.idOf(browsers.cookieFor('bea@x', cookie), 'bea@x')).not.toBe(id)
  now += (knownBrowserTtlS - 1) * 1_000
  const renewed = browsers.cookieFor('ana@x', cookie)
  now += 1_000
  expect([browsers.idOf(cookie, 'ana@x'), browsers.anyIdOf(cookie)]).toEqual([undefined, undefined])
  expect(browsers.idOf(renewed, 'ana@x')).toBe(id)
})

test('a cookie that was forged, changed or issued by another installation is ignored', () => {
  const browsers = createKnownBrowsers(newKey())
  const cookie = browsers.cookieFor('ana@x', undefined)
  const bytes = Buffer.from(cookie, 'base64url')
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes)
    changed[at]! ^= 1
    expect(browsers.idOf(changed.toString('base64url'), 'ana@x')).toBeUndefined()
  }
  const elsewhere = createKnownBrowsers(newKey()).cookieFor('ana@x', undefined)
  for (const forged of [undefined, '', 'x', 'ä', elsewhere, JSON.stringify({ id: 'a', account: 'ana@x' })]) {
    expect([browsers.idOf(forged, 'ana@x'), browsers.anyIdOf(forged)]).toEqual([undefined, undefined])
  }
})
