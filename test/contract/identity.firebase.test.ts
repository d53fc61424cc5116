/** The identity provider's contract, run on Firebase's admin library with the Auth emulator of firebase-tools. */

import pino from 'pino'
import { afterAll, expect, test } from 'vitest'
import { openFirebaseIdentity } from '#engines/identity/firebase.ts'
import type { IdentityParts } from '#engines/identity/port.ts'
import { emulatedProject, openAuthEmulator } from '../../scripts/servers/firebase.ts'
import { describeIdentity } from './identity.contract.ts'

const emulator = await openAuthEmulator()
// The library reads it by itself, from here alone.
process.env.FIREBASE_AUTH_EMULATOR_HOST = emulator.host
afterAll(() => emulator.close())

const parts = { log: pino({ level: 'silent' }), customTokenTtlS: 3_600 } as IdentityParts
const options = { projectId: emulatedProject, emulated: true }
const openProvider = () => openFirebaseIdentity(options).open(parts)

/** As a client of Firebase does. */
async function exchange(token: string): Promise<string> {
  const path = 'identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken?key=any'
  const answer = await fetch(`${emulator.url}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token, returnSecureToken: true }),
    signal: AbortSignal.timeout(20_000),
  })
  const json = (await answer.json()) as { idToken?: string; error?: { message: string } }
  if (!json.idToken) throw new Error(json.error?.message)
  return json.idToken
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

describeIdentity('Firebase', {
  lacks: { signatures: 'the emulator signs nothing, and accepts what nobody signed' },
  async open() {
    const provider = await openProvider()
    return {
      provider,
      exchange,
      async idTokenWith(uid, claims) {
        const nowS = Math.floor(Date.now() / 1_000)
        const usual = {
          iss: `https://securetoken.google.com/${emulatedProject}`,
          aud: emulatedProject,
          auth_time: nowS,
          user_id: uid,
          sub: uid,
          iat: nowS,
          exp: nowS + 3_600,
        }
        return `${part({ alg: 'none', typ: 'JWT' })}.${part({ ...usual, ...claims })}.`
      },
      close: () => provider.close(),
    }
  },
})

test('a lifetime that Google does not give is refused', async () => {
  const shorter = openFirebaseIdentity(options).open({ ...parts, customTokenTtlS: 60 })
  await expect(shorter).rejects.toMatchObject({ code: 'invalid_configuration' })
})

test('a deleted account is unauthorized, and an emulator that is gone is identity_unavailable', async () => {
  const provider = await openProvider()
  const token = await exchange((await provider.createCustomToken('agent_z', {})).customToken)
  await provider.verifyIdToken(token)
  const account = `${emulator.url}/emulator/v1/projects/${emulatedProject}/accounts`
  await fetch(account, { method: 'DELETE', headers: { authorization: 'Bearer owner' } })
  await expect(provider.verifyIdToken(token)).rejects.toMatchObject({ code: 'unauthorized' })
  await emulator.close()
  await expect(provider.verifyIdToken(token)).rejects.toMatchObject({ code: 'identity_unavailable' })
  await provider.close()
})
