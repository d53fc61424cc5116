/** The tables of the mirror by generation: where they are, how they are made, and who may read them. */

import { AppError } from '#lib/errors.ts'
import { type Relational, type SqlExecutor, sqlState } from '../port.ts'

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
       title text, status text, tags text[], mind_path text, updated_at timestamptz, payload jsonb not null, ${key});
     grant select on ${tables.embeddings}, ${tables.metadata} to ${readerRole}`,
  )
}

export async function dropTables(tx: SqlExecutor, tables: Tables): Promise<void> {
  await tx.query(`drop table if exists ${tables.embeddings}, ${tables.metadata}`)
}

/**
 * Makes the role that searches read as. Throws AppError `invalid_configuration` with the fix where that is not
 * allowed.
 */
export async function ensureReader(relational: Relational): Promise<void> {
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
