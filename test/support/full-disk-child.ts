/** Gives an agent a new key while this process may write no file; says whether the record was changed. */

import { placePrivateKey } from '#services/access/agents/key-pair.ts'

let changed = false
try {
  await placePrivateKey({ directory: process.argv[2]!, force: true }, async (key) => {
    changed = true
    // The result of provisionAgent and rotateAgent.
    return { privateKeyPem: key?.privateKeyPem ?? 'a new key' }
  })
} catch (error) {
  process.stdout.write(JSON.stringify({ changed, message: (error as Error).message }))
}
