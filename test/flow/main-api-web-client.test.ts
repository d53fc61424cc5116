/** Firebase's public web client signs in at the local issuer: only the address is another one. */

import { deleteApp, initializeApp } from '@firebase/app'
import {
  type Auth,
  connectAuthEmulator,
  createUserWithEmailAndPassword,
  getAuth,
  onIdTokenChanged,
  sendPasswordResetEmail,
  signInWithCustomToken,
  signOut,
} from '@firebase/auth'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { revokeAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { type MainApiPlatform, openMainApiPlatform, trade } from '../support/main-api-platform.ts'

let api: MainApiPlatform
let auth: Auth
const app = initializeApp({ apiKey: 'any', projectId: 'flotilla' })
beforeAll(async () => {
  api = await openMainApiPlatform()
  auth = getAuth(app)
  connectAuthEmulator(auth, api.baseUrl, { disableWarnings: true })
})
afterAll(async () => {
  await deleteApp(app)
  await api?.close()
})

const me = (token: string) => api.call('GET', '/api/v1/me', { token })

test('it trades a custom token, looks the account up, and its ID token lets the agent in', async () => {
  const { key, uid } = await api.issueKey('whale', { name: 'Whale' })
  const { user } = await signInWithCustomToken(auth, await trade(api.call, key))
  expect([user.uid, user.displayName]).toEqual([uid, 'Whale'])
  const { token, claims, signInProvider, expirationTime } = await user.getIdTokenResult()
  expect([claims.user_id, signInProvider]).toEqual([uid, 'custom'])
  expect(Date.parse(expirationTime) - Date.now()).toBeGreaterThan(3_500_000)
  expect((await me(token)).json).toMatchObject({ ok: true, data: { slug: 'whale' } })
})

test('it renews the token by itself', async () => {
  const { user } = await signInWithCustomToken(auth, await trade(api.call, (await api.issueKey('pulse')).key))
  const changed: (string | undefined)[] = []
  const stop = onIdTokenChanged(auth, async (one) => changed.push(await one?.getIdToken()))
  const renewed = await user.getIdToken(true)
  stop()
  expect((await me(renewed)).status).toBe(200)
  expect((await user.getIdTokenResult()).token).toBe(renewed)
})

test('it understands that a call is not there, and takes it for no fault of the network', async () => {
  for (const call of [
    () => createUserWithEmailAndPassword(auth, 'new@example.com', 'a long password'),
    () => sendPasswordResetEmail(auth, 'ana@example.com'),
  ]) {
    await expect(call()).rejects.toMatchObject({ code: 'auth/operation-not-allowed' })
  }
  for (const [method, path, status] of [
    ['POST', '/identitytoolkit.googleapis.com/v1/accounts:signUp?key=any', 404],
    ['GET', '/identitytoolkit.googleapis.com/v1/projects?key=any', 404],
    ['GET', '/identitytoolkit.googleapis.com/v1/accounts:lookup', 405],
    ['POST', '/securetoken.googleapis.com/v2/token', 404],
  ] as const) {
    const answer = await api.call(method, path, method === 'POST' ? { body: {} } : {})
    expect([answer.status, answer.json.error]).toEqual([
      status,
      expect.objectContaining({ code: status, message: expect.stringMatching(/^OPERATION_NOT_ALLOWED : /) }),
    ])
  }
  // Nothing else speaks like Google.
  expect((await api.call('GET', '/api/v1/nothing')).json).not.toHaveProperty('error')
})

test('it understands refusals', async () => {
  await expect(signInWithCustomToken(auth, 'no.custom.token')).rejects.toMatchObject({
    code: 'auth/invalid-custom-token',
  })
  const { key, id } = await api.issueKey('atlas')
  const customToken = await trade(api.call, key)
  const { user } = await signInWithCustomToken(auth, customToken)
  await revokeAgentKey(api.platform.engines.relational, id)
  await expect(signInWithCustomToken(auth, customToken)).rejects.toMatchObject({ code: 'auth/user-disabled' })
  // The refresh token ended with its key: the client has to sign in again.
  await expect(user.getIdToken(true)).rejects.toMatchObject({ code: /^auth\// })
  await signOut(auth)
})
