/** The key that the platform's own secrets are encrypted with is rotated. */

import { Type } from 'typebox'
import { rotateSecrets } from '#services/access/secrets/secrets.ts'
import { defineChange } from './change.ts'

export const rotateSecretsOperation = defineChange({
  name: 'secrets-rotate',
  action: 'secrets.rotate',
  targetOf: () => 'secrets',
  needs: [],
  args: Type.Object({}),
  async run({ platform, describe }) {
    const rotated = await rotateSecrets(platform.engines.relational, platform.env)
    describe({ after: { key_id: rotated.key_id }, count: rotated.secrets })
    return rotated
  },
})
