/**
 * The mirror on a PostgreSQL server: a pool for writing, a pool for reading, and a connection for work that takes
 * long.
 */

import type { Logger } from 'pino'
import { deadlines } from '#lib/deadlines.ts'
import { describeError } from '#lib/errors.ts'
import type { Relational } from '../port.ts'
import { openPostgres } from '../postgres.ts'
import { createMirror } from './mirror.ts'
import type { Mirror } from './port.ts'
import { openReadPool } from './read-pool.ts'
import { buildingTables, indexName, indexStatement } from './tables.ts'

const writeConnections = 4
/** A batch of some hundred rows goes into the vector index one by one. */
const writeTimeoutMs = deadlines.engine.mirrorWriteMs
const indexTimeoutMs = 24 * 3_600_000

/** The server need not be up yet: calls fail with `relational_engine_unavailable` until it is. */
export function openPostgresMirror({ url, log }: { url: string; log: Logger }): Mirror {
  const readPool = openReadPool({ url, log })
  let writePool: Relational | undefined
  return createMirror({
    driver: 'postgres',
    log,
    async open() {
      writePool ??= await openPostgres({
        url,
        log,
        poolMax: writeConnections,
        statementTimeoutMs: writeTimeoutMs,
      })
      return {
        write: writePool,
        read: readPool.read,
        finishGeneration: (generation) => finishGeneration({ url, log }, generation),
      }
    },
    async close() {
      await Promise.all([readPool.close(), writePool?.close()])
    },
  })
}

/** Builds the index while rows keep coming; one that an earlier try left half built is dropped first. */
async function finishGeneration(options: { url: string; log: Logger }, generation: number): Promise<void> {
  const tables = buildingTables(generation)
  const server = await openPostgres({ ...options, poolMax: 1, statementTimeoutMs: indexTimeoutMs })
  try {
    const name = `vectors_build.${indexName(tables)}`
    const { rows } = await server.query<{ valid: boolean; building: boolean }>(
      `select index.indisvalid as valid,
         exists (select from pg_stat_progress_create_index as run where run.index_relid = index.indexrelid) as building
       from pg_index as index where index.indexrelid = to_regclass($1)`,
      [name],
    )
    if (rows[0]?.valid) return
    if (rows[0]?.building) throw new Error('the index is being built by a connection that has lost its owner')
    if (rows[0]) await server.query(`drop index ${name}`)
    const startedAt = Date.now()
    await server.query(indexStatement(tables, 'concurrently'))
    options.log.info({ generation, took_ms: Date.now() - startedAt }, 'mirror.index-built')
  } finally {
    await server.close().catch((error: unknown) => {
      options.log.warn({ reason: describeError(error) }, 'mirror.close-failed')
    })
  }
}
