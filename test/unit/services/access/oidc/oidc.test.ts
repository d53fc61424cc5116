/** What a browser keeps of a sign-in that it began, and the codes that only this browser can trade. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { createStartCookies, issueCode, startTtlS, tradeCode } from '#services/access/oidc/oidc.ts'
import { addPerson } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { newSecretKey } from '#services/access/secrets/sealing.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
let uid: string
beforeAll(async () => {
  relational = await openControlPlane()
  const by = { actor: { kind: 'command_line' as const, id: 'tester' } }
  uid = (await addPerson(relational, { email: 'ana@x' }, notedBy(by, 'person.add'))).person.uid
})
afterAll(() => relational.close())

const begun = { state: 's', nonce: 'n', verifier: 'v', redirectUri: 'http://127.0.0.1/callback' }

test('a cookie opens at this installation alone, unchanged, for ten minutes, and shows nothing', () => {
  let now = 0
  const key = newSecretKey()
  const cookies = createStartCookies(key, () => now)
  const cookie = cookies.seal(begun)
  expect(cookies.open(cookie)).toEqual(begun)
  expect(Buffer.from(cookie, 'base64url').toString('latin1')).not.toContain('verifier')
  expect(createStartCookies(newSecretKey()).open(cookie)).toBeNull()
  const bytes = Buffer.from(cookie, 'base64url')
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes)
    changed[at]! ^= 1
    expect(cookies.open(changed.toString('base64url'))).toBeNull()
  }
  for (const none of [undefined, '', 'x', 'ä', '\0']) expect(cookies.open(none)).toBeNull()
  now = startTtlS * 1_000 - 1
  expect(cookies.open(cookie)).toEqual(begun)
  now += 1
  expect(cookies.open(cookie)).toBeNull()
})

test('a code is traded once, within a minute, by the browser that began', async () => {
  const code = await issueCode(relational, uid, 'state one')
  expect(await tradeCode(relational, code, 'state two')).toBeNull()
  expect(await tradeCode(relational, `${code}x`, 'state one')).toBeNull()
  expect(await tradeCode(relational, code, 'state one')).toBe(uid)
  expect(await tradeCode(relational, code, 'state one')).toBeNull()
  const late = await issueCode(relational, uid, 'state one')
  await relational.query("update platform.sign_in_codes set expires_at = expires_at - interval '60 seconds'")
  expect(await tradeCode(relational, late, 'state one')).toBeNull()
})

test('of trades at once only one gets the person', async () => {
  const code = await issueCode(relational, uid, 'state')
  const got = await Promise.all([1, 2, 3, 4].map(() => tradeCode(relational, code, 'state')))
  expect(got.filter((one) => one !== null)).toEqual([uid])
})
