/** Google's answers when people sign in at Firebase: a refusal of the person, or a fault of the provider. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { createFirebasePeople, type FirebasePeople } from '#services/access/people/sign-in.ts'

let answer = { status: 200, body: '{}' }
const asked: { url: string; body: string }[] = []
const server = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    asked.push({ url: String(request.url), body })
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
  })
})
let people: FirebasePeople
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  people = createFirebasePeople({
    relational: {} as Relational,
    identity: {} as AnyIdentityProvider,
    issuer: 'https://securetoken.google.com/demo',
    webApiKey: 'the key',
    emulatorHost: `127.0.0.1:${(server.address() as AddressInfo).port}`,
  })
})
afterAll(() => server.close())

const given = { email: 'ana@x', password: 'pass', address: '192.0.2.1', requestId: 'r' }
const fault = (message: string, status = 400) => {
  answer = { status, body: JSON.stringify({ error: { code: status, message, errors: [] } }) }
}

test.each([
  'INVALID_LOGIN_CREDENTIALS',
  'EMAIL_NOT_FOUND',
  'INVALID_PASSWORD',
  'INVALID_EMAIL',
  'USER_DISABLED',
])('%s is a wrong password like any other', async (message) => {
  fault(message)
  expect(await people.check(given)).toMatchObject({
    uid: null,
    refused: { code: 'unauthorized', message: 'Wrong e-mail or password.' },
  })
})

test('too many tries at Firebase name a time to wait', async () => {
  fault('TOO_MANY_ATTEMPTS_TRY_LATER : Access to this account has been disabled.')
  expect(await people.check(given)).toMatchObject({ refused: { code: 'rate_limited', retryAfter: 60 } })
})

test.each(['TOKEN_EXPIRED', 'USER_DISABLED', 'USER_NOT_FOUND', 'INVALID_REFRESH_TOKEN'])(
  'a refresh token that is answered %s is over',
  async (message) => {
    fault(message)
    await expect(people.confirm('a token')).rejects.toMatchObject({ code: 'unauthorized' })
  },
)

test.each([
  [400, JSON.stringify({ error: { message: 'API key not valid. Please pass a valid API key.' } })],
  [400, JSON.stringify({ error: { message: 'PASSWORD_LOGIN_DISABLED' } })],
  [400, '{}'],
  [403, JSON.stringify({ error: { message: 'INVALID_PASSWORD' } })],
  [500, JSON.stringify({ error: { message: 'INVALID_PASSWORD' } })],
  [200, 'no JSON'],
  [200, '{}'],
  [200, JSON.stringify({ idToken: 7 })],
  [200, `{"idToken":"${'x'.repeat(70_000)}"}`],
  [302, ''],
])('a %i of %.60s says nothing about the person: the provider is away', async (status, body) => {
  answer = { status, body }
  await expect(people.check(given)).rejects.toMatchObject({ code: 'identity_unavailable' })
  if (status !== 200) {
    await expect(people.confirm('t')).rejects.toMatchObject({ code: 'identity_unavailable' })
  }
  await expect(people.exchange('t')).rejects.toMatchObject({ code: 'identity_unavailable' })
})

test('it asks where Google does, with the key as parameter and the rest in the body', async () => {
  answer = { status: 200, body: JSON.stringify({ idToken: 'id', expiresIn: '3600' }) }
  asked.length = 0
  expect(await people.exchange('custom')).toEqual({ idToken: 'id', expiresInS: 3_600 })
  await people.confirm('refresh')
  expect(asked.map(({ url }) => url)).toEqual([
    '/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken?key=the%20key',
    '/securetoken.googleapis.com/v1/token?key=the%20key',
  ])
  expect(asked.map(({ body }) => JSON.parse(body))).toEqual([
    { token: 'custom', returnSecureToken: true },
    { grant_type: 'refresh_token', refresh_token: 'refresh' },
  ])
})
