/** Passwords: hashed with today's cost, outside of the event loop, a few at a time. */

import { scryptSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { checkNewPassword, createPasswords, newOneTimePassword } from '#services/access/people/passwords.ts'

const cheap = { ln: 4, r: 8, p: 1 }

test("the hash is a PHC string of today's recommended cost, which any scrypt can check", async () => {
  const stored = await createPasswords().hash('correct horse battery', 'here')
  const [, algorithm, cost, salt, hash] = stored.split('$') as [string, string, string, string, string]
  expect([algorithm, cost]).toEqual(['scrypt', 'ln=17,r=8,p=1'])
  const derived = scryptSync('correct horse battery', Buffer.from(salt, 'base64'), 32, {
    N: 131_072,
    r: 8,
    p: 1,
    maxmem: 256 * 1024 * 1024,
  })
  expect(derived.toString('base64').replace(/=+$/, '')).toBe(hash)
  expect(Buffer.from(salt, 'base64')).toHaveLength(16)
})

test('the event loop goes on while a password is checked', async () => {
  const passwords = createPasswords()
  let turns = 0
  let counting = setImmediate(count)
  function count() {
    turns++
    counting = setImmediate(count)
  }
  await passwords.verify('correct horse battery', null, 'here')
  clearImmediate(counting)
  // Within the event loop there would be one or two.
  expect(turns).toBeGreaterThan(5)
})

test('the right password matches, also in another form of Unicode, and no other does', async () => {
  const passwords = createPasswords(cheap)
  const stored = await passwords.hash('caf\u00e9 au lait, s\u2019il vous', 'here')
  expect((await passwords.verify('cafe\u0301 au lait, s\u2019il vous', stored, 'here')).matches).toBe(true)
  for (const wrong of ['', 'cafe au lait, s\u2019il vous', 'CAF\u00c9 AU LAIT', 'x'.repeat(10_000)]) {
    expect((await passwords.verify(wrong, stored, 'here')).matches).toBe(false)
  }
})

test.each([
  null,
  '',
  'plain',
  '$scrypt$ln=4,r=8,p=1$$',
  '$scrypt$ln=63,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
  '$argon2id$v=19$m=65536,t=3,p=4$AAAA$AAAA',
])('nothing matches the stored %j', async (stored) => {
  expect(await createPasswords(cheap).verify('anything at all', stored, 'here')).toEqual({ matches: false })
})

test('an unknown account costs as much as a known one', async () => {
  const stored = await createPasswords(cheap).hash('correct horse battery', 'here')
  const costs: unknown[] = []
  const passwords = createPasswords(cheap, async (_password, salt, cost) => {
    costs.push({ ...cost, salt: salt.length })
    return Buffer.alloc(32)
  })
  await passwords.verify('wrong horse battery', stored, 'here')
  await passwords.verify('wrong horse battery', null, 'here')
  expect(costs).toEqual([
    { ...cheap, salt: 16 },
    { ...cheap, salt: 16 },
  ])
})

test('a hash of another cost is replaced when its password comes', async () => {
  const old = await createPasswords(cheap).hash('correct horse battery', 'here')
  const today = createPasswords({ ln: 5, r: 8, p: 1 })
  expect(await today.verify('wrong', old, 'here')).toEqual({ matches: false })
  const { matches, upgraded } = await today.verify('correct horse battery', old, 'here')
  expect([matches, upgraded?.startsWith('$scrypt$ln=5,')]).toEqual([true, true])
  expect(await today.verify('correct horse battery', upgraded!, 'here')).toEqual({ matches: true })
})

test('beyond a bounded queue a check is refused at once, and no caller fills it', async () => {
  const passwords = createPasswords({ ln: 14, r: 8, p: 1 })
  const codeOf = (caller: string) =>
    passwords.verify('wrong', null, caller).then(
      () => 'checked',
      (error) => `${error.code} ${error.retryAfter}`,
    )
  const flood = Array.from({ length: 60 }, () => codeOf('flood'))
  expect(await codeOf('other')).toBe('checked')
  const floods = await Promise.all(flood)
  expect(floods.filter((one) => one === 'checked')).toHaveLength(4)
  expect(floods.filter((one) => one === 'rate_limited 1')).toHaveLength(56)
  const many = await Promise.all(Array.from({ length: 60 }, (_, n) => codeOf(`address ${n}`)))
  expect(many.filter((one) => one === 'overloaded 1')).toHaveLength(60 - 2 - 32)
})

test.each([
  ['short', 'eleven char'],
  ['long', 'ab'.repeat(40) + 'c'.repeat(177)],
  ['of few characters', 'abababababab'],
  ['the e-mail', 'My ana@example.com'],
  ['half a surrogate pair', 'abcdefghijkl\ud800'],
])('a password that is too %s is refused', (_what, password) => {
  expect(() => checkNewPassword(password, 'ana@example.com', '/new')).toThrow(
    expect.objectContaining({
      code: 'validation_failed',
      errors: [expect.objectContaining({ path: '/new' })],
    }),
  )
})

test('one-time passwords are long, typeable and never the same', () => {
  const made = Array.from({ length: 100 }, newOneTimePassword)
  expect(new Set(made).size).toBe(100)
  for (const one of made) {
    expect(one).toMatch(/^([a-hjkmnp-z2-9]{6}-){3}[a-hjkmnp-z2-9]{6}$/)
    checkNewPassword(one, 'admin@localhost', '/new')
  }
})
