/** Sessions: held by two secrets together, over after twelve idle hours or seven days, ended by a sign-out. */

import pino from 'pino'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Relational } from '#engines/relational/port.ts'
import { addPerson, removePerson, setRole } from '#services/access/people/people.ts'
import { notedBy } from '#services/access/people/rows.ts'
import { openSessions, type Sessions } from '#services/access/sessions/sessions.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

let sessions: Sessions
let personUid: string
let version: number
beforeEach(async () => {
  await relational.query(
    'delete from platform.people; delete from platform.outbox; delete from platform.admin_actions',
  )
  const { person } = await addPerson(relational, { email: 'ana@x' }, notedBy(by, 'person.add'))
  personUid = person.uid
  version = person.version
  sessions = openSessions({ relational, log: pino({ level: 'silent' }) })
  onTestFinished(() => sessions.close())
})

const by = { actor: { kind: 'command_line' as const, id: 'tester' } }
const begin = () =>
  sessions.begin({ person: { uid: personUid, version }, requestId: 'r', by: 'password', browser: true })
const refused = { code: 'unauthorized' }
const age = (what: 'used_at' | 'created_at', interval: string) =>
  relational.query(`update platform.sessions set ${what} = ${what} - interval '${interval}'`)

test('cookie and half together hold it; either alone, or with that of another session, does not', async () => {
  const one = await begin()
  const other = await begin()
  expect(await sessions.use(one.cookie, one.half)).toMatchObject({
    id: one.id,
    personUid,
    role: 'member',
    mustChangePassword: false,
    providerToken: null,
  })
  for (const [cookie, half] of [
    [one.cookie, undefined],
    [undefined, one.half],
    [one.cookie, ''],
    [one.cookie, other.half],
    [other.cookie, one.half],
    [`${one.id}.${other.cookie.split('.')[1]}`, one.half],
    [one.cookie, one.cookie.split('.')[1]],
    [one.id, one.half],
    ["x' OR 1=1", one.half],
    ['\0', one.half],
  ]) {
    await expect(sessions.use(cookie, half)).rejects.toMatchObject(refused)
  }
})

test('only hashes of its secrets are kept', async () => {
  const { cookie, half } = await begin()
  const secret = cookie.split('.')[1]!
  const { rows } = await relational.query<{ secret_hash: Buffer; half_hash: Buffer }>(
    'select * from platform.sessions',
  )
  const { rows: records } = await relational.query('select * from platform.outbox')
  for (const kept of [secret, half]) {
    expect(JSON.stringify([rows, records])).not.toContain(kept)
    expect(rows[0]!.secret_hash.equals(Buffer.from(kept, 'base64url'))).toBe(false)
    expect(rows[0]!.half_hash.equals(Buffer.from(kept, 'base64url'))).toBe(false)
  }
})

test('after twelve idle hours it is over; use makes it go on', async () => {
  const { cookie, half } = await begin()
  await age('used_at', '11 hours 59 minutes')
  await sessions.use(cookie, half)
  await age('used_at', '11 hours 59 minutes')
  const { endsAt } = await sessions.use(cookie, half)
  expect(Math.abs(endsAt.getTime() - Date.now() - 12 * 3_600_000)).toBeLessThan(60_000)
  await age('used_at', '12 hours 1 second')
  await expect(sessions.use(cookie, half)).rejects.toMatchObject(refused)
})

test('after seven days it is over, however it is used', async () => {
  const { cookie, half } = await begin()
  await age('created_at', '6 days 23 hours')
  const { endsAt } = await sessions.use(cookie, half)
  expect(Math.abs(endsAt.getTime() - Date.now() - 3_600_000)).toBeLessThan(60_000)
  await age('created_at', '1 hour 1 second')
  await expect(sessions.use(cookie, half)).rejects.toMatchObject(refused)
})

test('a sign-out ends it with a record and a line in the audit, once', async () => {
  const { id, cookie, half } = await begin()
  expect(await sessions.end('nonsense', 'r')).toBe(false)
  expect(await sessions.end(`${id}.${'A'.repeat(43)}`, 'r')).toBe(false)
  expect(await sessions.end(cookie, 'r-9')).toBe(true)
  expect(await sessions.end(cookie, 'r')).toBe(false)
  await expect(sessions.use(cookie, half)).rejects.toMatchObject(refused)
  const { rows } = await relational.query<{ change: string }>(
    `select value->>'change' as change from platform.outbox where topic = 'people.changes' order by id`,
  )
  expect(rows.map(({ change }) => change)).toEqual(['added', 'signed_out'])
  const lines = await relational.query(
    `select action, target, request_id from platform.admin_actions where action like 'person.sign%' order by seq`,
  )
  expect(lines.rows).toEqual([
    { action: 'person.sign_in', target: id, request_id: 'r' },
    { action: 'person.sign_out', target: id, request_id: 'r-9' },
  ])
})

test('a role that changed acts at the next use, and a removal ends it', async () => {
  const { cookie, half } = await begin()
  await setRole(relational, personUid, 'viewer', notedBy(by, 'person.role'))
  expect((await sessions.use(cookie, half)).role).toBe('viewer')
  await removePerson(relational, personUid, notedBy(by, 'person.remove'))
  await expect(sessions.use(cookie, half)).rejects.toMatchObject(refused)
  await expect(begin()).rejects.toMatchObject(refused)
})

test('a person who was changed since the password was checked begins no session', async () => {
  await relational.query('update platform.people set version = version + 1')
  await expect(begin()).rejects.toMatchObject(refused)
  expect((await relational.query('select 1 from platform.sessions')).rowCount).toBe(0)
})

test('a person has at most fifty: the one used least recently goes', async () => {
  const first = await begin()
  const second = await begin()
  for (let n = 0; n < 48; n++) await begin()
  await sessions.use(first.cookie, first.half)
  await begin()
  await sessions.use(first.cookie, first.half)
  await expect(sessions.use(second.cookie, second.half)).rejects.toMatchObject(refused)
})
