/** An embedded database with the platform's tables, for a whole test file. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { migrate } from '#engines/relational/migrate.ts'
import { openPglite } from '#engines/relational/pglite.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'

/** Open it in beforeAll and close it in afterAll: making the cluster takes seconds. */
export async function openControlPlane(): Promise<Relational> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const log = pino({ level: 'silent' })
  const relational = await openPglite({ directory: join(folder, 'pg'), log })
  await migrate(relational, log, migrationFolders)
  return {
    ...relational,
    async close() {
      await relational.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
