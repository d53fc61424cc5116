/** The contract of the mirror, run on a real Postgres, and how the index of a rebuilt generation is built there. */

import pino from 'pino'
import { expect, test } from 'vitest'
import { openPostgresMirror } from '#engines/relational/mirror/postgres.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'
import { describeMirror } from './mirror.contract.ts'

describeMirror('postgres', {
  open: async () => openPostgresMirror({ url: await databaseUrl(), log: silentLog }),
})

test('an index is built with memory and workers for many rows, and after a try that failed with those of the server', async () => {
  const built: { memory?: string; workers?: string }[] = []
  const log = pino({}, { write: (line: string) => built.push(JSON.parse(line)) })
  const mirror = openPostgresMirror({ url: await databaseUrl(), log })
  try {
    await mirror.createGeneration(1)
    built.length = 0
    await mirror.finishGeneration(1)
    expect(built).toEqual([
      expect.objectContaining({ msg: 'mirror.index-built', memory: expect.stringMatching(/kB$|MB$/) }),
    ])
    const { rows } = await mirror.write.query<Record<string, string>>(
      `select current_setting('max_parallel_maintenance_workers') as workers,
         (select boot_val from pg_settings where name = 'max_parallel_maintenance_workers') as usual`,
    )
    expect(Number(built[0]?.workers)).toBeGreaterThan(Number(rows[0]?.workers))
    expect(rows[0]?.workers).toBe(rows[0]?.usual)
    await mirror.write.query(
      `update pg_index set indisvalid = false where indexrelid = 'vectors_build.embeddings_g1_hnsw'::regclass`,
    )
    await mirror.finishGeneration(1)
    expect(built[1]).toMatchObject({ msg: 'mirror.index-built' })
    expect(built[1]).not.toHaveProperty('memory')
  } finally {
    await mirror.close()
  }
})
