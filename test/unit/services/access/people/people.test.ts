/** People: added, given another role or password, linked and removed, each with its record and its line in the audit. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import {
  addPerson,
  changePassword,
  listPeople,
  personOfAccount,
  readPasswordOf,
  removePerson,
  setRole,
  showPerson,
} from '#services/access/people/people.ts'
import { hasEmail, notedBy } from '#services/access/people/rows.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())
beforeEach(() =>
  relational.query(
    'delete from platform.people; delete from platform.outbox; delete from platform.admin_actions',
  ),
)

const by = { actor: { kind: 'command_line' as const, id: 'tester' }, requestId: 'r-1' }
const add = async (email: string, given: object = {}) =>
  (await addPerson(relational, { email, ...given }, notedBy(by, 'person.add'))).person

async function outbox() {
  const { rows } = await relational.query<{ topic: string; key: string; value: Record<string, unknown> }>(
    'select topic, key, value from platform.outbox order by id',
  )
  return rows
}

test('an added person has a uid, a role and a name of its own', async () => {
  const person = await add('Ana@Example.com')
  expect(person).toMatchObject({
    uid: expect.stringMatching(/^person_[0-9a-z]{26}$/),
    email: 'Ana@Example.com',
    name: 'Ana',
    role: 'member',
    must_change_password: false,
    has_password: false,
    version: 1,
  })
  expect(await showPerson(relational, 'ana@example.COM')).toEqual(person)
  expect(await showPerson(relational, person.uid)).toEqual(person)
  expect(await listPeople(relational)).toEqual([person])
})

test('e-mails are unique without case, accounts of a provider with it', async () => {
  await add('ana@example.com', { account: { issuer: 'https://i/', subject: 's' } })
  await expect(add('ANA@example.com')).rejects.toMatchObject({ code: 'person_exists' })
  const account = { issuer: 'https://i/', subject: 's' }
  await expect(add('bea@example.com', { account })).rejects.toMatchObject({ code: 'person_exists' })
  await add('bea@example.com', { account: { ...account, subject: 'S' } })
})

test.each([
  { email: 'nobody' },
  { email: '@x' },
  { email: 'a b@x' },
  { email: 'a@b@c' },
  { email: 'a@x\0' },
  { email: `${'a'.repeat(65)}@x` },
  { email: 'a\ud800@x' },
  { email: 'a@x', name: '' },
  { email: 'a@x', name: 'n'.repeat(65) },
  { email: 'a@x', role: 'owner' },
  { email: 'a@x', account: { issuer: 'https://i/', subject: 'ä' } },
])('%j is refused', async (fault) => {
  await expect(addPerson(relational, fault as never, notedBy(by, 'person.add'))).rejects.toMatchObject({
    code: 'validation_failed',
  })
  expect(await outbox()).toEqual([])
})

test('nobody unknown is found, whatever is asked', async () => {
  for (const who of ['', 'x', 'nobody@x', "x' OR 1=1", 'a\0@x', `person_${'0'.repeat(26)}`]) {
    await expect(showPerson(relational, who)).rejects.toMatchObject({ code: 'not_found' })
    await expect(removePerson(relational, who, notedBy(by, 'person.remove'))).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await readPasswordOf(relational, who)).toBeNull()
  }
})

test('every change writes its record and its line in the audit, in order', async () => {
  await add('root@x', { role: 'admin' })
  const { uid } = await add('ana@x', { password: 'hash one' })
  await setRole(relational, 'ANA@x', 'viewer', notedBy(by, 'person.role'))
  await changePassword(relational, uid, { before: 'hash one', after: 'hash two', keptSession: null }, by)
  await removePerson(relational, uid, notedBy(by, 'person.remove'))
  const rows = (await outbox()).filter(({ key, value }) => key === uid || value.target === uid)
  const changes = rows.filter(({ topic }) => topic === 'people.changes')
  expect(changes.map(({ value }) => [value.change, value.role, value.version])).toEqual([
    ['added', 'member', 1],
    ['role', 'viewer', 2],
    ['password', 'viewer', 3],
    ['removed', 'viewer', 4],
  ])
  const lines = rows.filter(({ topic }) => topic === 'admin.audit')
  expect(lines.map(({ value }) => [value.action, value.actor, value.request_id])).toEqual(
    ['person.add', 'person.role', 'person.password', 'person.remove'].map((one) => [one, 'tester', 'r-1']),
  )
  expect(JSON.stringify(rows)).not.toMatch(/hash (one|two)/)
})

test('the last admin is neither removed nor demoted', async () => {
  const root = await add('root@x', { role: 'admin' })
  for (const change of [
    () => removePerson(relational, 'root@x', notedBy(by, 'person.remove')),
    () => setRole(relational, 'root@x', 'member', notedBy(by, 'person.role')),
  ]) {
    await expect(change()).rejects.toMatchObject({ code: 'last_admin', statusCode: 409 })
  }
  await setRole(relational, 'root@x', 'admin', notedBy(by, 'person.role'))
  await add('next@x', { role: 'admin' })
  await setRole(relational, root.uid, 'member', notedBy(by, 'person.role'))
  await expect(removePerson(relational, 'next@x', notedBy(by, 'person.remove'))).rejects.toMatchObject({
    code: 'last_admin',
  })
})

test('of two admins who leave at the same moment one stays', async () => {
  for (let round = 0; round < 5; round++) {
    await relational.query('delete from platform.people')
    await add('a@x', { role: 'admin' })
    await add('b@x', { role: 'admin' })
    const outcomes = await Promise.allSettled([
      removePerson(relational, 'a@x', notedBy(by, 'person.remove')),
      setRole(relational, 'b@x', 'viewer', notedBy(by, 'person.role')),
    ])
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  }
})

test('a new password ends every session but the one that set it', async () => {
  const { uid } = await add('ana@x', { password: 'one' })
  for (const id of ['s1', 's2', 's3']) {
    await relational.query('insert into platform.sessions (id, person_uid) values ($1, $2)', [id, uid])
  }
  const change = { before: 'one', after: 'two', keptSession: 's2' }
  const { person } = await changePassword(relational, uid, change, by)
  expect(person.must_change_password).toBe(false)
  const { rows } = await relational.query('select id from platform.sessions')
  expect(rows).toEqual([{ id: 's2' }])
  await expect(changePassword(relational, uid, change, by)).rejects.toMatchObject({ code: 'conflict' })
})

test('an account is linked by a verified e-mail once, and found by its subject from then on', async () => {
  const { uid } = await add('Ana@x', { password: 'never replaced' })
  const account = { issuer: 'https://i/', subject: 'sub-1' }
  await expect(personOfAccount(relational, account, null, 'r')).rejects.toMatchObject({ code: 'forbidden' })
  await expect(personOfAccount(relational, account, 'other@x', 'r')).rejects.toMatchObject({
    code: 'forbidden',
  })
  const linked = await personOfAccount(relational, account, 'ana@X', 'r')
  expect(linked).toMatchObject({
    uid,
    oidc_subject: 'sub-1',
    must_change_password: false,
    has_password: false,
  })
  expect((await personOfAccount(relational, account, null, 'r')).uid).toBe(uid)
  // A second account that claims the same e-mail is another person's.
  const second = { issuer: 'https://i/', subject: 'sub-2' }
  await expect(personOfAccount(relational, second, 'ana@x', 'r')).rejects.toMatchObject({ code: 'forbidden' })
})

test('a verified e-mail is an e-mail, compared without the case of ASCII letters: no uid, and no U+212A for a k', async () => {
  const { uid } = await add('kate@example.com', { password: 'hash' })
  const account = { issuer: 'https://i/', subject: 'sub-1' }
  for (const claimed of [uid, uid.toUpperCase(), '\u212aate@example.com', 'kate@e\u00adxample.com']) {
    await expect(personOfAccount(relational, account, claimed, 'r')).rejects.toMatchObject({
      code: 'forbidden',
    })
  }
  const kelvin = '\u212aate@example.com'
  expect(await readPasswordOf(relational, kelvin)).toBeNull()
  await expect(showPerson(relational, kelvin)).rejects.toMatchObject({ code: 'not_found' })
  expect(await readPasswordOf(relational, 'Kate@Example.COM')).toMatchObject({ person: { uid } })
  expect(await personOfAccount(relational, account, 'KATE@example.com', 'r')).toMatchObject({ uid })
})

test('an e-mail is found by its index', async () => {
  const plan = await relational.transaction(async (tx) => {
    await tx.query('set local enable_seqscan = off')
    const { rows } = await tx.query(`explain select 1 from platform.people where ${hasEmail("'ana@x'")}`)
    return JSON.stringify(rows)
  })
  expect(plan).toContain('people_email_ascii')
})

test('linking leaves a password that the person chose', async () => {
  const { uid } = await add('ana@x', { password: 'one' })
  await changePassword(relational, uid, { before: 'one', after: 'two', keptSession: null }, by)
  const linked = await personOfAccount(relational, { issuer: 'https://i/', subject: 's' }, 'ana@x', 'r')
  expect(linked.has_password).toBe(true)
})
