/** An embedded relational engine for tests: its cluster is copied from one that was made once for this checkout. */

import { randomUUID } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import { openPglite } from '#engines/relational/pglite.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'

export const silentLog = pino({ level: 'silent' })

const cache = fileURLToPath(new URL('../../node_modules/.cache/flotilla-tests/', import.meta.url))
const packageFile = new URL('../../node_modules/@electric-sql/pglite/package.json', import.meta.url)

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

/** An empty cluster inside of `folder`: copying one takes a fraction of the seconds that making one takes. */
export async function copyCluster(folder: string): Promise<string> {
  const directory = join(folder, 'postgres')
  cpSync(await template(), directory, { recursive: true })
  return directory
}

async function template(): Promise<string> {
  const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }
  const finished = join(cache, `cluster-${version}`)
  if (existsSync(finished)) return finished
  mkdirSync(cache, { recursive: true })
  const building = join(cache, `building-${randomUUID()}`)
  await (await openPglite({ directory: building, log: silentLog })).close()
  try {
    renameSync(building, finished)
  } catch {
    // Another test process was faster: its cluster is as good.
    rmSync(building, { recursive: true, force: true })
  }
  return finished
}
