/** Copies the running platform, or the data directory of one that is stopped, for a backup. */

import { existsSync } from 'node:fs'
import { Type } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { openDataDirectory } from '#lib/data-directory.ts'
import { AppError } from '#lib/errors.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import { defineOperation, type OperationContext } from '../operation.ts'
import { copyPlatform } from './copy.ts'

export interface Copied {
  /** Everything that was acknowledged before this moment is in the copy. */
  begun_at: string
}

/** Copies the running platform: writes to the log go on, writes to the database wait while its files are copied. */
export const copyOperation = defineOperation({
  name: 'backup-copy',
  args: Type.Object({ folder: Type.String() }),
  async run({ platform, output, signal }: OperationContext, { folder }): Promise<Copied> {
    demandEmbedded(platform.choices)
    const begun_at = new Date().toISOString()
    const { relational } = platform.engines
    // Makes the database's own log short, so that there is less to copy.
    await relational.query('checkpoint')
    await copyPlatform({
      home: platform.home,
      folder,
      frozen: (work) => relational.transaction(work),
      progress: output.progress,
      signal,
    })
    return { begun_at }
  },
})

/** Where nothing runs: under the lock of the data directory, which keeps everyone else from writing. */
export async function copyStopped(
  env: Environment,
  folder: string,
  { output, signal }: Pick<OperationContext, 'output' | 'signal'>,
): Promise<Copied> {
  demandEmbedded(choicesOf(env))
  const home = homeOf(env)
  if (!existsSync(home)) throw new AppError('not_found', `There is no data directory ${home}.`)
  const directory = await openDataDirectory(home)
  try {
    const begun_at = new Date().toISOString()
    await copyPlatform({ home, folder, frozen: (work) => work(), progress: output.progress, signal })
    return { begun_at }
  } finally {
    await directory.close()
  }
}

/** Throws AppError `conflict` where the log or the database is a server: the copy of one instant is made of both. */
export function demandEmbedded(choices: Platform['choices']): void {
  const elsewhere = [choices.eventLog, choices.relational].filter(({ embedded }) => !embedded)
  if (elsewhere.length === 0) return
  const variables = elsewhere.map(({ variable }) => variable).join(' and ')
  throw new AppError(
    'conflict',
    `${variables} is set: what servers hold is backed up and restored by their own tools, as docs/backup.md says.`,
  )
}
