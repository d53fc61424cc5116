/** `flotilla secrets rotate`: encrypts the platform's own secrets with another key. */

import type { Command as Program } from 'commander'
import { rotateSecretsOperation } from '#operations/secrets.ts'
import { type Cli, describe } from '../cli.ts'
import { line } from '../output.ts'

export function registerSecrets(program: Program, cli: Cli): void {
  const secrets = program.command('secrets').description("the platform's own secrets in the database")
  const rotate = secrets
    .command('rotate')
    .description(
      'encrypt them with the first key of FLOTILLA_SECRET_KEY; where that is unset, with a fresh one in the file secret-key',
    )
  describe(rotate, 'flotilla secrets rotate').action(async ({ json }: { json?: boolean }) => {
    await cli.run(
      rotateSecretsOperation,
      {},
      {
        json,
        render: ({ secrets: count, key_id, kept_in }) =>
          line`${count} encrypted again; all are under key ${key_id} (${kept_in})`,
      },
    )
  })
}
