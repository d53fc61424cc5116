/** Many instances that start at the same time on unused databases of one server. */

import { expect, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import { openPostgresMirror } from '#engines/relational/mirror/postgres.ts'
import { openPostgres } from '#engines/relational/postgres.ts'
import { migrationFolders } from '#services/migrations.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'

const instances = 8
const databases = 4

/** Opens a database as an instance does at its start; resolves with the tables that it finds then. */
async function start(url: string): Promise<unknown> {
  const relational = await openPostgres({ url, log: silentLog, poolMax: 1 })
  const mirror: Mirror = openPostgresMirror({ url, log: silentLog })
  try {
    await Promise.all([migrate(relational, silentLog, migrationFolders), mirror.prepare()])
    const { rows } = await relational.query('select count(*) as applied from platform_migrations')
    const read = { timeoutMs: 20_000 }
    await mirror.read('select from vectors.embeddings join vectors.metadata using (collection, id)', [], read)
    return [rows, await mirror.liveGeneration()]
  } finally {
    await Promise.all([relational.close(), mirror.close()])
  }
}

test('all of them come up, on one database and on several, each with the same tables', async () => {
  const urls = await Promise.all(Array.from({ length: databases }, databaseUrl))
  const found = await Promise.all(urls.flatMap((url) => Array.from({ length: instances }, () => start(url))))
  expect(new Set(found.map((one) => JSON.stringify(one))).size).toBe(1)
})
