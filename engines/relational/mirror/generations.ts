/**
 * Creates, promotes and drops generations of the mirror's tables; promoting one replaces the live tables in one
 * transaction.
 */

import type { Relational, SqlExecutor } from '../port.ts'
import { buildingTables, createTables, dropTables, liveTables } from './tables.ts'

export async function readLiveGeneration(executor: SqlExecutor): Promise<number> {
  const { rows } = await executor.query<{ generation: number }>(
    'select generation from vectors_build.generations where live',
  )
  return rows[0]?.generation ?? 0
}

export async function adoptGeneration(relational: Relational, generation: number): Promise<number> {
  await relational.query(
    'update vectors_build.generations set generation = $1 where live and generation = 0',
    [generation],
  )
  return readLiveGeneration(relational)
}

export async function createGeneration(relational: Relational, generation: number): Promise<void> {
  const tables = buildingTables(generation)
  await relational.transaction(async (tx) => {
    await lockGenerations(tx)
    if ((await readLiveGeneration(tx)) === generation) throw liveFault(generation)
    await dropTables(tx, tables)
    await tx.query('delete from vectors_build.generations where generation = $1', [generation])
    await createTables(tx, tables)
    await tx.query('insert into vectors_build.generations (generation, live) values ($1, false)', [
      generation,
    ])
  })
}

/**
 * Writers keep a lock while they write, so none is at work on either generation meanwhile; readers of the old tables
 * end first, and those that come wait for the new ones. Rights stay with a table that moves.
 */
export async function promoteGeneration(relational: Relational, generation: number): Promise<void> {
  const { embeddings, metadata } = buildingTables(generation)
  await relational.transaction(async (tx) => {
    await lockGenerations(tx)
    const live = await readLiveGeneration(tx)
    if (live === generation) return
    await tx.query(
      `lock table ${liveTables.embeddings}, ${liveTables.metadata} in access exclusive mode;
       drop table ${liveTables.embeddings}, ${liveTables.metadata};
       alter table ${embeddings} set schema vectors;
       alter table vectors.${nameOf(embeddings)} rename to embeddings;
       alter table ${metadata} set schema vectors;
       alter table vectors.${nameOf(metadata)} rename to metadata`,
    )
    await tx.query('delete from vectors_build.generations where live')
    await tx.query('update vectors_build.generations set live = true where generation = $1', [generation])
  })
}

export async function dropGeneration(relational: Relational, generation: number): Promise<void> {
  await relational.transaction(async (tx) => {
    await lockGenerations(tx)
    if ((await readLiveGeneration(tx)) === generation) throw liveFault(generation)
    await dropTables(tx, buildingTables(generation))
    await tx.query('delete from vectors_build.generations where generation = $1', [generation])
  })
}

async function lockGenerations(tx: SqlExecutor): Promise<void> {
  await tx.query('lock table vectors_build.generations in access exclusive mode')
}

function nameOf(table: string): string {
  return table.slice(table.indexOf('.') + 1)
}

function liveFault(generation: number): Error {
  return new Error(`generation ${generation} of the mirror is the live one`)
}
