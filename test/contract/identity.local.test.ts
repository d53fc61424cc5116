/** The identity provider's contract, run on the local issuer. */

import { importJWK, SignJWT } from 'jose'
import { createInstallation, issuerUrl, openInstance } from '#test/support/identity.ts'
import { describeIdentity } from './identity.contract.ts'

describeIdentity('the local issuer', {
  async open() {
    const installation = createInstallation()
    const provider = await openInstance(installation)
    const { keys } = JSON.parse((await installation.signingKeys.read())!)
    const key = await importJWK(keys[0].private, 'ES256')
    return {
      provider,
      exchange: async (customToken) => (await provider.exchange(customToken)).idToken,
      idTokenWith(uid, claims) {
        const nowS = Math.floor(Date.now() / 1_000)
        const usual = { iss: issuerUrl, aud: 'flotilla', sub: uid, user_id: uid, auth_time: nowS }
        return new SignJWT({ ...usual, iat: nowS, exp: nowS + 3_600, ...claims })
          .setProtectedHeader({ alg: 'ES256', kid: keys[0].kid })
          .sign(key)
      },
      close: () => provider.close(),
    }
  },
})
