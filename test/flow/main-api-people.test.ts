/** People of the main API: added, given roles and removed over HTTP and by the command line. */

import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sleep } from '#lib/backoff.ts'
import { runJson } from '../support/command-line.ts'
import { readEvents } from '../support/event-reader.ts'
import { eventually } from '../support/eventually.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { makePerson, newBrowser, type SignedInBrowser, signIn, type TestPerson } from '../support/people.ts'
import { temporaryFolder } from '../support/temporary.ts'

// Each password costs a good part of a second, on a busy machine several.
vi.setConfig({ testTimeout: 120_000 })

let platform: MainApiPlatform
let admin: SignedInBrowser
let adminUid: string
beforeAll(async () => {
  platform = await openMainApiPlatform()
  const person = await makePerson(platform, 'root@x', 'admin')
  adminUid = person.uid
  admin = await signIn(platform, person)
})
afterAll(() => platform.close())

test('an added person signs in with the one-time password, and has to replace it', async () => {
  const added = await admin.ask('POST', '/api/v1/users', { email: 'Ana@x', role: 'viewer', name: 'Ana' })
  expect([added.status, added.data]).toEqual([
    201,
    {
      uid: expect.stringMatching(/^person_/),
      email: 'Ana@x',
      name: 'Ana',
      role: 'viewer',
      signs_in_with: ['password'],
      must_change_password: true,
      oidc_subject: null,
      created_at: expect.any(String),
      signed_in_at: null,
      one_time_password: expect.any(String),
    },
  ])
  const password = added.data.one_time_password as string
  const ana = await signIn(platform, { email: 'ana@x', password })
  expect((await ana.ask('GET', '/api/v1/users')).data.code).toBe('password_change_required')
  const change = { current: password, new: 'my very own password' }
  expect((await ana.ask('PUT', '/api/v1/me/password', change)).status).toBe(200)
  const refused = await ana.ask('GET', '/api/v1/users')
  expect([refused.status, refused.data.code]).toEqual([403, 'forbidden'])
  const listed = (await admin.ask('GET', '/api/v1/users')).data.users as Record<string, unknown>[]
  expect(listed.find(({ email }) => email === 'Ana@x')).toMatchObject({
    must_change_password: false,
    signed_in_at: expect.any(String),
  })
  expect(JSON.stringify(listed)).not.toMatch(/scrypt|hash/)
  const kept = await platform.platform.engines.relational.query('select * from platform.admin_actions')
  for (const secret of [password, change.new]) {
    expect(JSON.stringify(kept.rows)).not.toContain(secret)
    expect(platform.lines.join('')).not.toContain(secret)
  }
})

test('a role acts on the next request, and a removal ends everything', async () => {
  const bob = await makePerson(platform, 'bob@x', 'viewer')
  const signedIn = await signIn(platform, bob)
  expect((await signedIn.ask('GET', '/api/v1/users')).status).toBe(403)
  const changed = await admin.ask('PATCH', '/api/v1/users/BOB@x', { role: 'admin' })
  expect([changed.status, changed.data.role]).toEqual([200, 'admin'])
  expect((await signedIn.ask('GET', '/api/v1/users')).status).toBe(200)
  await admin.ask('PATCH', `/api/v1/users/${bob.uid}`, { role: 'member' })
  expect((await signedIn.ask('GET', '/api/v1/users')).status).toBe(403)
  const removed = await admin.ask('DELETE', `/api/v1/users/${bob.uid}`)
  expect([removed.status, removed.data]).toMatchObject([200, { removed: true, email: 'bob@x' }])
  expect((await signedIn.ask('GET', '/api/v1/me')).status).toBe(401)
  const bought = await signedIn.browser.ask('/api/v1/session/token', {
    method: 'POST',
    headers: { 'x-session-half': signedIn.half },
  })
  expect(bought.status).toBe(401)
  const again = await newBrowser(platform).ask('/api/v1/session', {
    body: { email: bob.email, password: bob.password },
  })
  expect(again.status).toBe(401)
})

test('the last admin can be neither demoted nor removed', async () => {
  // The first admin of the installation is one, too.
  expect((await admin.ask('DELETE', '/api/v1/users/admin@localhost')).status).toBe(200)
  for (const [method, body] of [
    ['DELETE', undefined],
    ['PATCH', { role: 'member' }],
  ] as const) {
    const refused = await admin.ask(method, '/api/v1/users/root@x', body)
    expect([method, refused.status, refused.data.code]).toEqual([method, 409, 'last_admin'])
  }
})

test('open streams end with a sign-out, another role and a removal', async () => {
  const tail = `${platform.baseUrl}/api/v1/log/topics/fleet.events/tail`
  const ends: Record<string, (person: TestPerson, signedIn: SignedInBrowser) => Promise<unknown>> = {
    'a sign-out': (_person, { browser }) => browser.ask('/api/v1/session', { method: 'DELETE' }),
    'another role': ({ uid }) => admin.ask('PATCH', `/api/v1/users/${uid}`, { role: 'member' }),
    'a removal': ({ uid }) => admin.ask('DELETE', `/api/v1/users/${uid}`),
  }
  const stays = await readEvents(tail, { token: admin.idToken })
  for (const [what, end] of Object.entries(ends)) {
    const person = await makePerson(platform, `${what.replace(' ', '-')}@x`, 'admin')
    const signedIn = await signIn(platform, person)
    const stream = await readEvents(tail, { token: signedIn.idToken })
    expect([what, stream.status]).toEqual([what, 200])
    const changed = end(person, signedIn)
    await stream.over
    await changed
    expect([what, (await signedIn.ask('GET', '/api/v1/audit')).status]).not.toEqual([what, 200])
  }
  // Those of others go on.
  let over = false
  void stays.over.then(() => {
    over = true
  })
  await sleep(100)
  expect(over).toBe(false)
  stays.cut()
})

test.each([
  ['POST', '/api/v1/users', {}, 422],
  ['POST', '/api/v1/users', { email: 'no mail' }, 422],
  ['POST', '/api/v1/users', { email: 'a@x', role: 'owner' }, 422],
  ['POST', '/api/v1/users', { email: 'a@x', password: 'chosen for another' }, 422],
  ['POST', '/api/v1/users', { email: 'a@x', oidc_subject: 'no provider here' }, 422],
  ['POST', '/api/v1/users', { email: 'ROOT@x' }, 409],
  ['PATCH', '/api/v1/users/nobody@x', { role: 'viewer' }, 404],
  ['PATCH', '/api/v1/users/root@x', { role: 'owner' }, 422],
  ['PATCH', '/api/v1/users/root@x', {}, 422],
  ['DELETE', '/api/v1/users/person_00000000000000000000000000', undefined, 404],
  ['DELETE', '/api/v1/users/%00', undefined, 404],
] as const)('%s %s %j is answered %i', async (method, path, body, status) => {
  const answer = await admin.ask(method, path, body)
  expect([answer.status, answer.text]).toEqual([status, answer.text])
})

test('the audit records sign-ins, refusals and changes with their callers', async () => {
  const uma = await makePerson(platform, 'uma@x')
  await newBrowser(platform).ask('/api/v1/session', { body: { email: 'uma@x', password: 'not hers' } })
  await signIn(platform, uma)
  await admin.ask('PATCH', '/api/v1/users/uma@x', { role: 'viewer' })
  await eventually('four lines', async () => {
    const { rows } = await platform.platform.engines.relational.query<Record<string, unknown>>(
      `select actor_id, action, outcome, reason, before, after from platform.admin_actions
       where target = $1 or actor_id = $1 order by seq`,
      [uma.uid],
    )
    const shown = rows.map(({ actor_id, action, outcome }) => `${actor_id} ${action} ${outcome}`).sort()
    expect(shown).toEqual(
      [
        'tester person.add done',
        `${uma.uid} person.sign_in refused`,
        `${uma.uid} person.sign_in done`,
        `${adminUid} person.role done`,
      ].sort(),
    )
    return true
  })
})

test('an agent has no password, and its role counts as that of a person does', async () => {
  const token = await platform.tokenFor('admin')
  const own = await platform.call('PUT', '/api/v1/me/password', {
    token,
    body: { current: 'x', new: 'a password of my own' },
  })
  expect([own.status, own.json.code]).toEqual([403, 'forbidden'])
  expect((await platform.call('GET', '/api/v1/users', { token })).status).toBe(200)
  const viewer = await platform.tokenFor('viewer')
  expect((await platform.call('GET', '/api/v1/users', { token: viewer })).status).toBe(403)
})

test('the command line adds, lists, changes and removes people', async () => {
  const env = { FLOTILLA_HOME: temporaryFolder() }
  const added = await runJson<Record<string, unknown>>(['users', 'add', 'ana@x', '--role', 'admin'], env)
  expect(added).toMatchObject({ email: 'ana@x', role: 'admin', one_time_password: expect.any(String) })
  const twice = await runJson<Record<string, { code: string }>>(['users', 'add', 'ANA@x'], env, 1)
  expect(twice.error!.code).toBe('person_exists')
  await runJson(['users', 'add', 'bea@x', '--name', 'Bea'], env)
  expect(await runJson(['user', 'role', 'bea@x', 'viewer'], env)).toMatchObject({
    name: 'Bea',
    role: 'viewer',
  })
  const last = await runJson<Record<string, { code: string }>>(['users', 'remove', 'ana@x'], env, 1)
  expect(last.error!.code).toBe('last_admin')
  expect(await runJson(['users', 'remove', 'bea@x'], env)).toMatchObject({ email: 'bea@x', removed: true })
  const { users } = await runJson<{ users: { email: string }[] }>(['users', 'list'], env)
  expect(users.map(({ email }) => email)).toEqual(['ana@x'])
  const wrong = await runJson<Record<string, { code: string }>>(['users', 'add', 'no mail'], env, 2)
  expect(wrong.error!.code).toBe('validation_failed')
})
