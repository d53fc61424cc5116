/** The key that the platform's own secrets are encrypted with is rotated. */

import { Type } from 'typebox'
import { rotateSecrets } from '#services/access/secrets/secrets.ts'
import { type Action, defineAction } from './action.ts'

const rotateSecretsAction = defineAction({
  name: 'secrets-rotate',
  summary:
    'Encrypt them with the first key of FLOTILLA_SECRET_KEY; where that is unset, with a fresh one in the file secret-key',
  args: Type.Object({}),
  change: { action: 'secrets.rotate', target: () => 'secrets' },
  async run({ platform, describe }) {
    const rotated = await rotateSecrets(platform.engines.relational, platform.env)
    describe({ after: { key_id: rotated.key_id }, count: rotated.secrets })
    return rotated
  },
  cli: [
    {
      name: 'secrets rotate',
      example: 'flotilla secrets rotate',
      render: ({ secrets, key_id, kept_in }) =>
        `${secrets} encrypted again; all are under key ${key_id} (${kept_in})`,
    },
  ],
})

export const secretActions: readonly Action[] = [rotateSecretsAction]
