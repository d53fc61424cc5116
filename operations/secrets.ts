/** The key that the platform's own secrets are encrypted with is rotated. */

import { Type } from 'typebox'
import { rotateSecrets } from '#services/identity/secrets/secrets.ts'
import { defineOperation } from './operation.ts'

export const rotateSecretsOperation = defineOperation({
  name: 'secrets-rotate',
  needs: [],
  args: Type.Object({}),
  run: ({ platform }) => rotateSecrets(platform.engines.relational, platform.env),
})
