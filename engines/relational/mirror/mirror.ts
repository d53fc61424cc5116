/**
 * What both drivers of the mirror share: everything above a relational engine that is opened at its first use. Operations and
 * positions are written in one transaction: rows are staged by COPY, then upserted.
 */

import type { Logger } from 'pino'
import { AppError } from '#lib/errors.ts'
import { type CopyValue, type Relational, type SqlTransaction, sqlState } from '../port.ts'
import { relationalUnavailable } from '../sql-faults.ts'
import type { Mirror, MirrorOperation, MirrorPosition, MirrorRow, MirrorTarget } from './port.ts'
import {
  adoptGeneration,
  buildingTables,
  createGeneration,
  createStage,
  dropGeneration,
  liveTables,
  movePositions,
  prepareMirror,
  promoteGeneration,
  readLiveGeneration,
  stageColumns,
  type Tables,
} from './tables.ts'

interface MirrorDriver {
  driver: Mirror['driver']
  log: Logger
  /** Opens the engine; called once, and again after it failed. */
  open(): Promise<OpenedMirror>
  /** Prepares the engine before `open`; absent where it runs anyway. */
  resting?(): 'closed' | 'absent'
  /** Called once the tables are ready. */
  prepared?(): void
  close(): Promise<void>
}

interface OpenedMirror {
  write: Relational
  read: Mirror['read']
  /** Builds the vector index of a filled generation. */
  finishGeneration(generation: number): Promise<void>
}

export function createMirror(parts: MirrorDriver): Mirror {
  let opening: Promise<OpenedMirror> | undefined
  let ready: Promise<OpenedMirror> | undefined
  let closing: Promise<void> | undefined

  async function prepareOpened(): Promise<OpenedMirror> {
    opening ??= parts.open().catch((error: unknown) => {
      opening = undefined
      throw error
    })
    const opened = await opening
    await prepareMirror(opened.write, parts.log)
    parts.prepared?.()
    return opened
  }
  function engine(): Promise<OpenedMirror> {
    if (closing) return Promise.reject(new AppError('shutting_down', 'The relational mirror is closed.'))
    ready ??= prepareOpened().catch((error: unknown) => {
      ready = undefined
      throw error
    })
    return ready
  }
  const write = writerOf(parts.driver, async () => (await engine()).write)
  return {
    driver: parts.driver,
    write,
    state: () => (ready || !parts.resting ? 'open' : parts.resting()),
    async prepare() {
      await engine()
    },
    async read(text, params, options) {
      return (await engine()).read(text, params, options)
    },
    apply: (target, operations, positions) =>
      refusing(() => applyOperations(write, target, operations, positions)),
    positions: (target) => readPositions(write, target),
    liveGeneration: () => readLiveGeneration(write),
    adoptGeneration: (generation) => adoptGeneration(write, generation),
    createGeneration: (generation) => createGeneration(write, generation),
    finishGeneration: async (generation) => (await engine()).finishGeneration(generation),
    promoteGeneration: (generation) => promoteGeneration(write, generation),
    dropGeneration: (generation) => dropGeneration(write, generation),
    ping: (timeoutMs) => write.ping(timeoutMs),
    close() {
      closing ??= parts.close()
      return closing
    },
  }
}

/** An engine that can be passed on at once and is opened when it is used. */
function writerOf(driver: Mirror['driver'], engine: () => Promise<Relational>): Relational {
  return {
    driver,
    query: async (text, params) => (await engine()).query(text, params),
    transaction: async (work) => (await engine()).transaction(work),
    listen: async (channel, listener) => (await engine()).listen(channel, listener),
    ping: async (timeoutMs) => (await engine()).ping(timeoutMs),
    async close() {},
  }
}

/** Data that no table takes, a row that is too large, a rule of the tables: the same rows can never be stored. */
const refusedStates = /^(22|23|54)/

/**
 * Every other fault of a statement is the engine's own, however it came about: waiting helps, giving rows up does
 * not.
 */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const state = sqlState(error)
    if (state === undefined) throw error
    if (!refusedStates.test(state)) throw relationalUnavailable(error)
    throw new AppError('validation_failed', `the relational engine refuses the row (SQLSTATE ${state})`, {
      cause: error,
    })
  }
}

async function applyOperations(
  relational: Relational,
  target: MirrorTarget,
  operations: MirrorOperation[],
  positions: MirrorPosition[],
): Promise<void> {
  const partitions = partitionsOf(operations, positions)
  if (partitions.length === 0) return
  await relational.transaction(async (tx) => {
    const { tables, fences } = await lockPositions(tx, target, partitions)
    const fresh = operations.filter((one) => one.offset >= (fences.get(one.partition) ?? 0))
    const last = lastOfEach(fresh)
    await remove(tx, tables, last)
    await write(tx, target, {
      tables,
      rows: last.filter((one) => one.row !== null),
      moved: movesOf(fresh, positions),
    })
  })
}

async function readPositions(
  relational: Relational,
  { generation, epoch }: MirrorTarget,
): Promise<MirrorPosition[]> {
  const { rows } = await relational.query<{ partition: number; next: number }>(
    'select partition, next from vectors_build.positions where generation = $1 and epoch = $2',
    [generation, epoch],
  )
  return rows
}

/**
 * Where the generation's tables are now, which remains true until the transaction ends: a transaction that promotes
 * another one waits for this lock, and one that had to wait for that sees the new row in the statement after the
 * lock. Writers of one partition wait for each other here, in the order of partitions. `fences` has the first offset of each
 * partition that has not been written: what is below it comes from a writer that was overtaken, and so does everything
 * of an epoch that a newer one has followed.
 */
async function lockPositions(tx: SqlTransaction, { generation, epoch }: MirrorTarget, partitions: number[]) {
  await tx.query('lock table vectors_build.generations in access share mode')
  let rows = await readLocked(tx, [generation, epoch, partitions])
  if (rows.length < partitions.length) {
    await tx.query(
      `insert into vectors_build.positions (generation, epoch, partition, next)
       select generation, $2, partition, 0 from vectors_build.generations, unnest($3::int[]) as partition
       where generation = $1 order by partition on conflict do nothing`,
      [generation, epoch, partitions],
    )
    rows = await readLocked(tx, [generation, epoch, partitions])
  }
  const first = rows[0]
  if (!first) throw relationalUnavailable(new Error(`generation ${generation} of the mirror has no tables`))
  if (!first.staged) await tx.query(createStage)
  return {
    tables: first.live ? liveTables : buildingTables(generation),
    fences: new Map(
      rows.map(({ partition, written, newest }) => [
        partition,
        newest > epoch ? Number.POSITIVE_INFINITY : written,
      ]),
    ),
  }
}

interface LockedPosition {
  partition: number
  written: number
  newest: number
  live: boolean
  /** The connection has its staging table. */
  staged: boolean
}

async function readLocked(
  tx: SqlTransaction,
  params: [generation: number, epoch: number, partitions: number[]],
) {
  const { rows } = await tx.query<LockedPosition>(
    `select held.partition, greatest(held.next, held.written) as written, made.live,
       (select max(epoch) from vectors_build.positions where generation = $1) as newest,
       to_regclass('pg_temp.mirror_batch') is not null as staged
     from vectors_build.positions as held join vectors_build.generations as made using (generation)
     where held.generation = $1 and held.epoch = $2 and held.partition = any($3::int[])
     order by held.partition for no key update of held`,
    params,
  )
  return rows
}

function partitionsOf(operations: MirrorOperation[], positions: MirrorPosition[]): number[] {
  const partitions = new Set([...operations, ...positions].map((one) => one.partition))
  return [...partitions].sort((a, b) => a - b)
}

function lastOfEach(operations: MirrorOperation[]): MirrorOperation[] {
  return [...new Map(operations.map((one) => [`${one.collection}/${one.id}`, one])).values()]
}

/** Copies the rows into the staging table; then one statement puts them in place and moves the positions. */
async function write(
  tx: SqlTransaction,
  { generation, epoch }: MirrorTarget,
  { tables, rows, moved }: { tables: Tables; rows: MirrorOperation[]; moved: Moves },
): Promise<void> {
  const values = [...moved.values()]
  const params = [
    generation,
    epoch,
    [...moved.keys()],
    values.map((one) => one.next),
    values.map((one) => one.written),
  ]
  if (rows.length === 0) {
    if (moved.size > 0) await tx.query(movePositions, params)
    return
  }
  await tx.copy(
    'pg_temp.mirror_batch',
    stageColumns,
    rows.map((one) => valuesOf(one, one.row as MirrorRow)),
  )
  // A row that stays as it is costs no new entry in the vector index, which is most of the price of a row.
  await tx.query(
    `with moves as (${movePositions}),
     vectors as (
       insert into ${tables.embeddings} as held (collection, id, embedding)
       select collection, id, embedding from pg_temp.mirror_batch
       on conflict (collection, id) do update set embedding = excluded.embedding
       where held.embedding is distinct from excluded.embedding)
     insert into ${tables.metadata} (collection, id, title, status, tags, mind_path, updated_at, payload, expires_at)
     select collection, id, title, status, tags, mind_path, updated_at, payload, expires_at from pg_temp.mirror_batch
     on conflict (collection, id) do update set
       title = excluded.title, status = excluded.status, tags = excluded.tags, mind_path = excluded.mind_path,
       updated_at = excluded.updated_at, payload = excluded.payload, expires_at = excluded.expires_at`,
    params,
  )
}

function valuesOf({ collection, id }: MirrorOperation, row: MirrorRow): CopyValue[] {
  const { embedding, title, status, tags, mindPath, updatedAt, payload, expiresAt } = row
  return [collection, id, embedding, title, status, tags, mindPath, updatedAt, payload, expiresAt]
}

async function remove(tx: SqlTransaction, tables: Tables, operations: MirrorOperation[]): Promise<void> {
  const gone = operations.filter((one) => one.row === null)
  if (gone.length === 0) return
  await tx.query(
    `with gone as (select * from unnest($1::text[], $2::text[]) as gone (collection, id)),
       embeddings as (
         delete from ${tables.embeddings} as held using gone
         where held.collection = gone.collection and held.id = gone.id)
     delete from ${tables.metadata} as held using gone
     where held.collection = gone.collection and held.id = gone.id`,
    [gone.map((one) => one.collection), gone.map((one) => one.id)],
  )
}

type Moves = ReadonlyMap<number, { next: number; written: number }>

/** By partition; empty where no position moves. */
function movesOf(operations: MirrorOperation[], positions: MirrorPosition[]): Moves {
  const moved = new Map<number, { next: number; written: number }>()
  const of = (partition: number) => {
    const known = moved.get(partition) ?? { next: 0, written: 0 }
    moved.set(partition, known)
    return known
  }
  for (const { partition, next } of positions) of(partition).next = next
  for (const { partition, offset } of operations) of(partition).written = offset + 1
  return moved
}
