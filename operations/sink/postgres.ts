/**
 * A sink into a table of Postgres: records and position are written by one transaction. The row of the position names who
 * writes, so that of two sinks with one name the earlier one is refused at its next write.
 */

import { randomUUID } from 'node:crypto'
import type { Relational, SqlTransaction } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { readPosition } from '../topic-stream/position.ts'
import type { PositionedRecord, SinkTarget } from './jsonl.ts'

export interface PostgresOptions {
  topic: string
  /** Name of the sink. */
  name: string
  /** With its schema in front, or without one. */
  table: string
  /** `append`: a row for each record. `state`: a row for each key, its newest; a tombstone deletes it. */
  mode: 'append' | 'state'
}

export const tableForm = '^[a-z_][a-z0-9_]{0,62}(\\.[a-z_][a-z0-9_]{0,62})?$'
const positionsTable = 'flotilla_sinks'

interface Row {
  topic: string
  target: string
  mode: string
  position: string | null
  holder: string
}

/** Makes both tables where they are absent, and takes the name over. Throws AppError `conflict` for a name of another sink. */
export async function openPostgresTarget(
  relational: Relational,
  options: PostgresOptions,
): Promise<SinkTarget> {
  const { name, topic, mode } = options
  const holder = randomUUID()
  const table = options.table
    .split('.')
    .map((part) => `"${part}"`)
    .join('.')
  await relational.transaction(async (tx) => {
    await makeTables(tx, table, mode)
    await tx.query(
      `insert into ${positionsTable} (name, topic, target, mode, holder) values ($1, $2, $3, $4, $5)
       on conflict (name) do nothing`,
      [name, topic, options.table, mode, holder],
    )
    const row = await lockRow(tx, name)
    if (row.topic !== topic || row.target !== options.table || row.mode !== mode) {
      throw new AppError(
        'conflict',
        `The sink ${name} copies ${row.topic} into ${row.target} (${row.mode}): give this one another --name.`,
      )
    }
    await tx.query(`update ${positionsTable} set holder = $2 where name = $1`, [name, holder])
  })

  /** Runs `work` while this sink holds its name. */
  function holding<T>(work: (tx: SqlTransaction, row: Row) => Promise<T>): Promise<T> {
    return relational.transaction(async (tx) => {
      const row = await lockRow(tx, name)
      if (row.holder !== holder) {
        throw new AppError('fenced', `Another sink with the name ${name} was started: this one ends.`)
      }
      return work(tx, row)
    })
  }

  return {
    position: () => holding(async (_, { position }) => position),
    write: (given) =>
      holding(async (tx, { position }) => {
        // A commit whose answer was lost may have written them.
        const records = given.filter((record) => !isWritten(record, position))
        const last = records.at(-1)
        if (!last) return
        if (mode === 'state') await applyStates(tx, table, records)
        else await tx.query(`insert into ${table} (${columns}) ${givenRows}`, [rowsOf(records)])
        await tx.query(`update ${positionsTable} set position = $2, updated_at = now() where name = $1`, [
          name,
          last.position,
        ])
      }),
    async caughtUp(epoch) {
      if (mode === 'append') return
      // After `topics grow` the topic was read again: what did not come again is deleted there.
      await holding((tx) => tx.query(`delete from ${table} where epoch < $1`, [epoch]))
    },
    close: () => relational.close(),
  }
}

async function makeTables(tx: SqlTransaction, table: string, mode: PostgresOptions['mode']): Promise<void> {
  // Two that make one table at the same time would meet a fault of the catalogue.
  await tx.query('select pg_advisory_xact_lock(hashtext($1))', [positionsTable])
  await tx.query(
    `create table if not exists ${positionsTable} (
       name text primary key,
       topic text not null,
       target text not null,
       mode text not null,
       position text,
       holder text not null,
       updated_at timestamptz not null default now()
     )`,
  )
  await tx.query(
    `create table if not exists ${table} (
       key text,
       value jsonb,
       headers jsonb not null,
       "timestamp" timestamptz not null,
       epoch integer not null,
       partition integer not null,
       "offset" bigint not null,
       primary key (${mode === 'append' ? 'epoch, partition, "offset"' : 'key'})
     )`,
  )
}

async function lockRow(tx: SqlTransaction, name: string): Promise<Row> {
  const { rows } = await tx.query<Row>(
    `select topic, target, mode, position, holder from ${positionsTable} where name = $1 for update`,
    [name],
  )
  if (rows[0]) return rows[0]
  throw new AppError('conflict', `The row of the sink ${name} was deleted while it runs.`)
}

function isWritten({ partition, offset, position }: PositionedRecord, written: string | null): boolean {
  if (written === null) return false
  const { epoch, next } = readPosition(written, 'position')
  return epoch === epochOf(position) && offset < (next.get(partition) ?? 0)
}

function epochOf(position: string): number {
  return readPosition(position, 'position').epoch
}

const columns = 'key, value, headers, "timestamp", epoch, partition, "offset"'
const givenRows = `select ${columns} from jsonb_to_recordset($1::jsonb) as r (key text, value jsonb, headers jsonb,
  "timestamp" timestamptz, epoch integer, partition integer, "offset" bigint)`

async function applyStates(
  tx: SqlTransaction,
  table: string,
  records: readonly PositionedRecord[],
): Promise<void> {
  const newest = new Map(records.map((record) => [record.key, record]))
  const states = [...newest.values()].filter(({ value }) => value !== null)
  const deleted = [...newest.values()].flatMap(({ key, value }) => (value === null ? [textOf(key)] : []))
  if (deleted.length > 0) await tx.query(`delete from ${table} where key = any($1::text[])`, [deleted])
  if (states.length === 0) return
  const changes = columns.split(', ').slice(1)
  await tx.query(
    `insert into ${table} (${columns}) ${givenRows}
     on conflict (key) do update set ${changes.map((name) => `${name} = excluded.${name}`).join(', ')}`,
    [rowsOf(states)],
  )
}

function rowsOf(records: readonly PositionedRecord[]): string {
  const rows = records.map(({ position, fault, value, ...record }) => ({
    ...record,
    // What could not be decoded must not look like a value, nor like a tombstone.
    value: fault === undefined ? value : { fault },
    epoch: epochOf(position),
  }))
  return JSON.stringify(rows, (_, value) => (typeof value === 'string' ? textOf(value) : value))
}

/** Postgres keeps no NUL in a text. */
function textOf(text: string | null): string {
  return (text ?? '').replaceAll('\0', '\ufffd')
}
