/**
 * The tables of the mirror by generation: how a database is brought to where the mirror can use it, who may read them, and how
 * one generation takes the place of another. Running it again changes nothing.
 */

import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { AppError } from '#lib/errors.ts'
import { changedAtOnce, createdAtOnce, lockedOut, migrate, whileRacing } from '../migrate.ts'
import { type CopyColumn, type Relational, type SqlExecutor, sqlState } from '../port.ts'

export const readerRole = 'flotilla_reader'

export interface Tables {
  embeddings: string
  metadata: string
}

export const liveTables: Tables = { embeddings: 'vectors.embeddings', metadata: 'vectors.metadata' }

/** Tables of a generation that is not live. */
export function buildingTables(generation: number): Tables {
  return {
    embeddings: `vectors_build.embeddings_g${generation}`,
    metadata: `vectors_build.metadata_g${generation}`,
  }
}

/** The index of a server; the embedded engine has none (an insert into it takes twenty milliseconds) and scans. */
export function indexStatement(tables: Tables, how: 'at once' | 'concurrently'): string {
  const concurrently = how === 'concurrently' ? 'concurrently' : ''
  return `create index ${concurrently} ${indexName(tables)} on ${tables.embeddings}
    using hnsw (embedding vector_cosine_ops) with (m = 16, ef_construction = 128)`
}

export function indexName(tables: Tables): string {
  return `${tables.embeddings.split('.')[1]}_hnsw`
}

/**
 * Empty tables without the vector index. Collections and ids sort code point by code point; a vector is kept in its
 * row, because a scan that fetches each from a second table takes four times as long.
 */
export async function createTables(tx: SqlExecutor, tables: Tables): Promise<void> {
  const key = `collection text collate "C" not null, id text collate "C" not null, primary key (collection, id)`
  await tx.query(
    `create table ${tables.embeddings} (embedding vector(1536) not null, ${key});
     alter table ${tables.embeddings} alter column embedding set storage plain;
     create table ${tables.metadata} (
       title text, status text, tags text[], mind_path text, updated_at timestamptz, payload jsonb not null,
       expires_at timestamptz, ${key});
     create index ${nameOf(tables.metadata)}_expires_at on ${tables.metadata} (expires_at) where expires_at is not null;
     grant select on ${tables.embeddings}, ${tables.metadata} to ${readerRole}`,
  )
}

/** A table of the connection alone: never written to the server's log, and empty after each transaction. */
export const createStage = `
  create temp table mirror_batch (
    collection text, id text, embedding vector(1536),
    title text, status text, tags text[], mind_path text, updated_at timestamptz, payload jsonb,
    expires_at timestamptz
  ) on commit delete rows;
  alter table pg_temp.mirror_batch alter column embedding set storage plain`

export const stageColumns: CopyColumn[] = [
  { name: 'collection', type: 'text' },
  { name: 'id', type: 'text' },
  { name: 'embedding', type: 'vector' },
  { name: 'title', type: 'text' },
  { name: 'status', type: 'text' },
  { name: 'tags', type: 'text[]' },
  { name: 'mind_path', type: 'text' },
  { name: 'updated_at', type: 'timestamptz' },
  { name: 'payload', type: 'jsonb' },
  { name: 'expires_at', type: 'timestamptz' },
]

/** Parameters: generation, epoch, and in lists partitions, the next offsets, and the first ones that are not written. */
export const movePositions = `
  update vectors_build.positions as held
  set next = greatest(held.next, moved.next), written = greatest(held.written, moved.written)
  from unnest($3::int[], $4::bigint[], $5::bigint[]) as moved (partition, next, written)
  where held.generation = $1 and held.epoch = $2 and held.partition = moved.partition`

async function dropTables(tx: SqlExecutor, tables: Tables): Promise<void> {
  await tx.query(`drop table if exists ${tables.embeddings}, ${tables.metadata}`)
}

/**
 * Makes the role that searches read as. Throws AppError `invalid_configuration` with the fix where that is not
 * allowed.
 */
async function ensureReader(relational: Relational): Promise<void> {
  try {
    await relational.query(ensureRole)
  } catch (error) {
    if (sqlState(error) !== '42501') throw error
    throw new AppError(
      'invalid_configuration',
      `The user of DATABASE_URL may not make the role that searches read as. Let an administrator run, once: ` +
        `create role ${readerRole} nologin; grant ${readerRole} to <that user>;`,
    )
  }
  await relational.query(
    `grant usage on schema vectors to ${readerRole};
     grant select on all tables in schema vectors to ${readerRole};
     alter default privileges in schema vectors grant select on tables to ${readerRole}`,
  )
}

/** Roles belong to the whole server: another database of it may have made this one, or be making it. */
const ensureRole = `do $$
  declare
    may text := case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
  begin
    if not exists (select from pg_roles where rolname = '${readerRole}') then
      begin
        create role ${readerRole} nologin;
      exception when duplicate_object or unique_violation then null;
      end;
    end if;
    if not pg_has_role(current_user, '${readerRole}', may) then
      execute format('grant ${readerRole} to %I', current_user);
    end if;
  end $$`

const migrations = fileURLToPath(new URL('./migrations/', import.meta.url))
const atOnce = [...createdAtOnce, ...changedAtOnce, ...lockedOut]
const pauseMs = 250

/** Throws AppError `invalid_configuration`, naming the fix, where the database lacks pgvector or a right. */
export async function prepareMirror(relational: Relational, log: Logger): Promise<void> {
  try {
    await migrate(relational, log, [migrations])
  } catch (error) {
    throw explained(error)
  }
  await whileRacing(atOnce, pauseMs, () => ensureReader(relational))
  await whileRacing(atOnce, pauseMs, () => ensureLiveTables(relational))
}

async function ensureLiveTables(relational: Relational): Promise<void> {
  const { rows } = await relational.query('select generation from vectors_build.generations where live')
  if (rows.length > 0) return
  await relational.transaction(async (tx) => {
    await tx.query('lock table vectors_build.generations in exclusive mode')
    const again = await tx.query('select generation from vectors_build.generations where live')
    if (again.rows.length > 0) return
    await createTables(tx, liveTables)
    if (relational.driver === 'postgres') await tx.query(indexStatement(liveTables, 'at once'))
    await tx.query('insert into vectors_build.generations (generation, live) values (0, true)')
  })
}

function explained(error: unknown): unknown {
  const state = sqlState(error)
  if (state === '0A000' || state === '58P01') {
    return new AppError(
      'invalid_configuration',
      'The database of DATABASE_URL has no pgvector: install it on the server (0.8 or later).',
    )
  }
  if (state === '42501') {
    return new AppError(
      'invalid_configuration',
      'The user of DATABASE_URL may not set up the relational mirror. Let an administrator run, once, in that database: ' +
        'create extension vector; grant create on database <that database> to <that user>;',
    )
  }
  return error
}

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
