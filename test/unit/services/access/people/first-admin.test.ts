/** The first admin: made once, by one instance, with a password that is in one file until it was replaced. */

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { firstAdminEmail, openFirstAdmin, prepareFirstPassword } from '#services/access/people/first-admin.ts'
import { createPasswords } from '#services/access/people/passwords.ts'
import { addPerson, changePassword, listPeople, readPasswordOf } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.people'))

const passwords = createPasswords({ ln: 4, r: 8, p: 1 })
const prepare = () => prepareFirstPassword(passwords)
const by = { actor: { kind: 'command_line' as const, id: 'tester' } }

async function start(home: string) {
  const lines: string[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(line) })
  const first = await openFirstAdmin({ relational, home, prepare, log })
  onTestFinished(() => first.close())
  return { first, lines }
}

test('the password of the file is that of the account, and is in no log', async () => {
  const home = temporaryFolder()
  const { lines } = await start(home)
  const file = join(home, 'admin-password')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const password = readFileSync(file, 'utf8').trim()
  const account = await readPasswordOf(relational, firstAdminEmail)
  expect(account?.person).toMatchObject({ role: 'admin', must_change_password: true })
  expect((await passwords.verify(password, account!.password, 'here')).matches).toBe(true)
  expect(lines.join('')).not.toContain(password)
  expect(lines.join('')).toContain('people.first-admin')
  expect(readdirSync(home)).toEqual(['admin-password'])
})

test('a second start makes no other, and leaves the file', async () => {
  const home = temporaryFolder()
  await start(home)
  const password = readFileSync(join(home, 'admin-password'), 'utf8')
  await start(home)
  expect(readFileSync(join(home, 'admin-password'), 'utf8')).toBe(password)
})

test('of instances that start at once on one database one makes it', async () => {
  const homes = [temporaryFolder(), temporaryFolder(), temporaryFolder()]
  await Promise.all(homes.map((home) => start(home)))
  expect(await listPeople(relational)).toHaveLength(1)
  expect(homes.filter((home) => existsSync(join(home, 'admin-password')))).toHaveLength(1)
})

test('where an admin was added there is no first one', async () => {
  const home = temporaryFolder()
  await addPerson(relational, { email: 'root@x', role: 'admin' }, notedBy(by, 'person.add'))
  await start(home)
  expect((await listPeople(relational)).map(({ email }) => email)).toEqual(['root@x'])
  expect(readdirSync(home)).toEqual([])
})

test('the file goes when its password was replaced, also at another instance', async () => {
  const home = temporaryFolder()
  const { first } = await start(home)
  await first.tidy()
  expect(existsSync(join(home, 'admin-password'))).toBe(true)
  const account = (await readPasswordOf(relational, firstAdminEmail))!
  const change = { before: account.password!, after: 'new', keptSession: null }
  await changePassword(relational, account.person.uid, change, by)
  await first.tidy()
  expect(existsSync(join(home, 'admin-password'))).toBe(false)
})

test('where the file cannot be written there is no admin whose password nobody knows', async () => {
  const home = join(temporaryFolder(), 'a-file')
  writeFileSync(home, '')
  await expect(start(home)).rejects.toMatchObject({ code: 'invalid_configuration' })
  expect(await listPeople(relational)).toEqual([])
  await start(temporaryFolder())
  expect(await listPeople(relational)).toHaveLength(1)
})
