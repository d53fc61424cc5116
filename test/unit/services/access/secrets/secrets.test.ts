/** Secrets at rest: encrypted in the database, opened by the right key alone, and encrypted again by a rotation. */

import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { newSecretKey, parseSecretKey, seal, unseal } from '#services/access/secrets/sealing.ts'
import { openSecrets, rotateSecrets, tryKeys } from '#services/access/secrets/secrets.ts'
import { loadOperationSecret } from '#services/vectors/read/operations/operations.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.secrets; delete from platform.installation'))

const keyText = () => randomBytes(32).toString('base64')
const word = Buffer.from('a secret of the platform')
const make = () => word
const stored = async () =>
  (await relational.query<{ sealed: Buffer }>('select sealed from platform.secrets order by name')).rows

test('a secret is made once, stored encrypted, and opens under its key', async () => {
  const env = { FLOTILLA_SECRET_KEY: keyText(), FLOTILLA_HOME: temporaryFolder() }
  const first = await openSecrets(relational, env)
  const made = await Promise.all([1, 2, 3].map(() => first.get('word', () => randomBytes(32))))
  expect(new Set(made.map((secret) => secret.toString('hex'))).size).toBe(1)
  const [row] = await stored()
  expect(row!.sealed.includes(made[0]!)).toBe(false)
  const again = await openSecrets(relational, env)
  expect(await again.get('word', make)).toEqual(made[0])
  expect(readdirSync(env.FLOTILLA_HOME)).toEqual([])
})

test('without the variable the key is a file of this user alone, made once', async () => {
  const home = temporaryFolder()
  const env = { FLOTILLA_HOME: join(home, 'deep', 'home') }
  const noted: object[] = []
  const log = { info: (fields: object) => noted.push(fields) } as never
  const secrets = await openSecrets(relational, env, log)
  await secrets.get('word', make)
  const file = join(env.FLOTILLA_HOME, 'secret-key')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(noted).toMatchObject([{ file }])
  expect(JSON.stringify(noted)).not.toContain(readFileSync(file, 'utf8').trim())
  const again = await openSecrets(relational, env, log)
  expect(await again.get('word', () => Buffer.from('another'))).toEqual(word)
  expect(noted).toHaveLength(1)
  expect(readdirSync(env.FLOTILLA_HOME)).toEqual(['secret-key'])
})

test('a process that cannot decrypt the stored secret refuses, names the variable, and makes no key', async () => {
  const key = keyText()
  const empty = temporaryFolder()
  await (await openSecrets(relational, { FLOTILLA_SECRET_KEY: key })).get('word', make)
  for (const env of [{ FLOTILLA_SECRET_KEY: keyText() }, { FLOTILLA_HOME: empty }]) {
    const refused = openSecrets(relational, env)
    await expect(refused).rejects.toMatchObject({
      code: 'invalid_configuration',
      message: expect.stringContaining('FLOTILLA_SECRET_KEY'),
    })
  }
  expect(await tryKeys(relational, { FLOTILLA_SECRET_KEY: key })).toBe(1)
  expect(await tryKeys(relational, { FLOTILLA_HOME: empty })).toBeNull()
  await expect(tryKeys(relational, { FLOTILLA_SECRET_KEY: keyText() })).rejects.toThrow('do not open')
  expect(existsSync(join(empty, 'secret-key'))).toBe(false)
})

test.each(['short', '', Buffer.alloc(31).toString('base64'), `${Buffer.alloc(32).toString('base64')},tail`])(
  'a key of another form is refused and never shown: %s',
  async (text) => {
    const home = temporaryFolder()
    const file = join(home, 'secret-key')
    writeFileSync(file, text)
    const faulty = text === '' ? { FLOTILLA_HOME: home } : { FLOTILLA_SECRET_KEY: text }
    for (const env of [faulty, { FLOTILLA_HOME: home }]) {
      const error = await openSecrets(relational, env).catch((caught: Error) => caught)
      expect(error).toMatchObject({ code: 'invalid_configuration' })
      if (text !== '') expect((error as Error).message).not.toContain(text)
    }
  },
)

test('hex, base64 and base64url name the same key', () => {
  const bytes = Buffer.alloc(32, 0xfb)
  const ids = (['hex', 'base64', 'base64url'] as const).map(
    (form) => parseSecretKey(bytes.toString(form))?.id,
  )
  expect(new Set(ids).size).toBe(1)
  expect(ids[0]).toMatch(/^[0-9a-f]{16}$/)
})

test('no bit of a sealed secret can change, and its name is part of it', () => {
  const key = newSecretKey()
  const sealed = seal(key, 'word', word)
  expect(unseal([newSecretKey(), key], 'word', sealed)).toEqual(word)
  expect(unseal([key], 'other', sealed)).toBeNull()
  for (let at = 0; at < sealed.length; at++) {
    const bent = Buffer.from(sealed)
    bent[at]! ^= 1
    expect(unseal([key], 'word', bent)).toBeNull()
  }
  for (let length = 0; length < sealed.length; length++) {
    expect(unseal([key], 'word', sealed.subarray(0, length))).toBeNull()
  }
})

test('rotation of the variable: the first key encrypts all, then the old one may go', async () => {
  const [old, fresh] = [keyText(), keyText()]
  await (await openSecrets(relational, { FLOTILLA_SECRET_KEY: old })).get('word', make)
  const both = { FLOTILLA_SECRET_KEY: `${fresh}, ${old}` }
  expect(await (await openSecrets(relational, both)).get('word', () => Buffer.alloc(1))).toEqual(word)
  expect(await rotateSecrets(relational, both)).toEqual({
    key_id: parseSecretKey(fresh)!.id,
    secrets: 1,
    kept_in: 'FLOTILLA_SECRET_KEY',
  })
  expect(await rotateSecrets(relational, both)).toMatchObject({ secrets: 0 })
  const secrets = await openSecrets(relational, { FLOTILLA_SECRET_KEY: fresh })
  expect(await secrets.get('word', () => Buffer.alloc(1))).toEqual(word)
  await expect(openSecrets(relational, { FLOTILLA_SECRET_KEY: old })).rejects.toThrow('FLOTILLA_SECRET_KEY')
})

test('rotation of the file: a fresh key before the last one; a rotation that was cut off opens still', async () => {
  const env = { FLOTILLA_HOME: temporaryFolder() }
  const file = join(env.FLOTILLA_HOME, 'secret-key')
  await (await openSecrets(relational, env)).get('word', make)
  const lines = () => readFileSync(file, 'utf8').trim().split('\n')
  const [first] = lines()
  const rotated = await rotateSecrets(relational, env)
  expect(rotated).toMatchObject({ secrets: 1, kept_in: file })
  expect(lines()).toEqual([expect.not.stringContaining(first!), first])
  // As after a kill between the file and the database: a key that nothing is encrypted with comes first.
  writeFileSync(file, `${keyText()}\n${lines().join('\n')}\n`)
  expect(await (await openSecrets(relational, env)).get('word', () => Buffer.alloc(1))).toEqual(word)
  expect(await rotateSecrets(relational, env)).toMatchObject({ secrets: 1 })
  expect(lines()).toHaveLength(2)
  rmSync(file)
  await expect(rotateSecrets(relational, env)).rejects.toMatchObject({ code: 'invalid_configuration' })
})

test('the secret of operation ids that an earlier release kept in the clear stays valid and is encrypted', async () => {
  const old = randomBytes(32)
  await relational.query('insert into platform.installation (secret) values ($1)', [old])
  const env = { FLOTILLA_SECRET_KEY: keyText() }
  expect(await loadOperationSecret(await openSecrets(relational, env))).toEqual(old)
  const { rows } = await relational.query('select 1 from platform.installation')
  expect(rows).toEqual([])
  expect(await loadOperationSecret(await openSecrets(relational, env))).toEqual(old)
})

test('a secret is changed by one instance at a time, also after the key in the file was rotated', async () => {
  const env = { FLOTILLA_HOME: temporaryFolder() }
  const [one, two] = [await openSecrets(relational, env), await openSecrets(relational, env)]
  expect(await one.find('count')).toBeUndefined()
  const next = (secrets: typeof one) =>
    secrets.change('count', async (old) => {
      await new Promise((resolve) => setTimeout(resolve, 20))
      return Buffer.from(String(Number(old ?? 0) + 1))
    })
  await Promise.all([next(one), next(two), next(one)])
  expect(String(await two.find('count'))).toBe('3')
  await rotateSecrets(relational, env)
  expect(String(await one.find('count'))).toBe('3')
  await next(one)
  await rotateSecrets(relational, env)
  expect(String(await two.find('count'))).toBe('4')
  const unchanged = await two.change('count', async (old) => old!)
  expect(String(unchanged)).toBe('4')
})
