/** How the embedded Postgres is made and started: little memory, little disk. */

import { PGlite, type PGliteOptions } from '@electric-sql/pglite'

/** For the making of a cluster. Its log is kept in files of 1 MB; by default the first alone takes 16. */
export const clusterOptions: PGliteOptions = { initDbStartParams: ['--wal-segsize=1'] }

/** Settings of every start. `sharedBuffersMb` is taken from the system at once, used or not. */
export function startParams(sharedBuffersMb: number): string[] {
  const settings = [
    `shared_buffers=${sharedBuffersMb}MB`,
    // Log files that a checkpoint has made useless are removed, not kept for later.
    'wal_recycle=off',
    'wal_init_zero=off',
  ]
  return [...PGlite.defaultStartParams, ...settings.flatMap((setting) => ['-c', setting])]
}
