/** An embedded relational engine for tests. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import { openPglite } from '#engines/relational/pglite.ts'
import { ensureCluster } from '#engines/relational/pglite-cluster.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'

export const silentLog = pino({ level: 'silent' })

/** An engine with all migrations, closed when the running test ends. */
export async function openTestRelational(options: { statementTimeoutMs?: number } = {}): Promise<Relational> {
  const relational = await openEmptyRelational(options)
  onTestFinished(() => relational.close())
  await migrate(relational, silentLog, migrationFolders)
  return relational
}

/** An engine without any table; the caller closes it, which removes its folder, too. */
export async function openEmptyRelational(
  options: { statementTimeoutMs?: number } = {},
): Promise<Relational> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const relational = await openPglite({ directory: await copyCluster(folder), log: silentLog, ...options })
  return {
    ...relational,
    async close() {
      await relational.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** An empty cluster inside of `folder`. */
export async function copyCluster(folder: string): Promise<string> {
  const directory = join(folder, 'postgres')
  await ensureCluster(directory)
  return directory
}
