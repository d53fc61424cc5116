/**
 * The SQLite file that holds every point: tables per collection and generation, and which generation is live. Its write-ahead log
 * is moved into the file while writes go on, so that no search waits for it.
 */

import { closeSync, existsSync, fdatasync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { AppError, describeError } from '#lib/errors.ts'
import { allRows, firstRow, inTransaction, lookInto } from '#lib/sqlite.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import type { CheckpointHandlers } from './checkpoint-thread.ts'
import { dropPointsTables, makePointsTables, openPointsTable, type PointsTable } from './points-table.ts'

export type MessageLog = (
  level: 'info' | 'warn' | 'error',
  message: string,
  fields?: Record<string, unknown>,
) => void

/** Vectors of 1536 numbers and a usual payload fill one page. */
const pageBytes = 8192
const formatVersion = 1

type GenerationState = 'building' | 'live' | 'dropped'

export type PointsFile = ReturnType<typeof openPointsFile>

/**
 * Opens or makes the file below `directory`. Throws AppError `invalid_configuration` when it holds another dimension.
 */
export function openPointsFile(directory: string, collections: string[], dimension: number, log: MessageLog) {
  const path = pointsPath(directory)
  const writer = new DatabaseSync(path, { timeout: 5_000 })
  writer.exec(`pragma page_size = ${pageBytes}; pragma journal_mode = wal; pragma synchronous = full;
    pragma cache_size = -16384; pragma temp_store = memory;`)
  writer.exec(`create table if not exists meta (key text primary key, value integer not null) without rowid;
    create table if not exists generations (generation integer primary key, state text not null);`)
  demandMeta(writer, 'format', formatVersion)
  demandMeta(writer, 'dimension', dimension)
  const checkpoints = openCheckpoints(writer, path, log)
  const disk = openDisk(logPath(path))
  const reader = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
  reader.exec('pragma cache_size = -65536; pragma mmap_size = 1073741824;')

  const setState = writer.prepare(
    'insert into generations values (?, ?) on conflict (generation) do update set state = excluded.state',
  )
  const names = (generation: number) => collections.map((collection) => `${collection}_${generation}`)
  const tables = writer.prepare(`select name from sqlite_schema where type = 'table' and name glob 'p_*~*_*'`)
  const file = {
    /** Runs `work` in one transaction, which others see at once. `durable` resolves when it is on disk. */
    transaction<T>(work: () => T): { result: T; durable: Promise<void> } {
      const result = withoutSync(writer, () => inTransaction(writer, work))
      const durable = disk.reached()
      checkpoints.committed()
      return { result, durable }
    },
    generations: () =>
      allRows<{ generation: number; state: GenerationState }>(
        writer.prepare('select generation, state from generations order by generation'),
      ),
    /** Makes the tables that a generation lacks and remembers its state. */
    addGeneration: (generation: number, state: GenerationState): void =>
      inTransaction(writer, () => {
        for (const name of names(generation)) makePointsTables(writer, name)
        setState.run(generation, state)
      }),
    /** In one transaction: `generation` is live, the live one before it is to be dropped. */
    promote: (generation: number): void =>
      inTransaction(writer, () => {
        writer.exec(`update generations set state = 'dropped' where state = 'live'`)
        setState.run(generation, 'live')
      }),
    /** From now on the generation is gone for readers, also after a crash; its tables are emptied afterwards. */
    markDropped: (generation: number): void => void setState.run(generation, 'dropped'),
    removeTables: (generation: number): void =>
      inTransaction(writer, () => {
        const own = file.made(generation).map((collection) => `${collection}_${generation}`)
        for (const name of [...names(generation), ...own]) dropPointsTables(writer, name)
        writer.prepare('delete from generations where generation = ?').run(generation)
      }),
    /** Collections besides those that are always there. */
    made: (generation: number): string[] => {
      const end = `_${generation}`
      const made = allRows<{ name: string }>(tables).filter(({ name }) => name.endsWith(end))
      return made.map(({ name }) => name.slice('p_'.length, -end.length))
    },
    makeTable: (collection: string, generation: number): void =>
      inTransaction(writer, () => makePointsTables(writer, `${collection}_${generation}`)),
    removeTable: (collection: string, generation: number): void =>
      inTransaction(writer, () => dropPointsTables(writer, `${collection}_${generation}`)),
    table: (collection: string, generation: number): PointsTable =>
      openPointsTable(writer, reader, `${collection}_${generation}`),
    async close(): Promise<void> {
      await checkpoints.close()
      await disk.close()
      reader.close()
      writer.close()
    },
  }
  if (file.generations().every(({ state }) => state === 'dropped')) file.addGeneration(1, 'live')
  for (const { generation, state } of file.generations()) {
    // A collection that was added to the platform since needs its tables, those of an earlier release their new columns.
    if (state !== 'dropped') file.addGeneration(generation, state)
    for (const name of file.made(generation)) file.makeTable(name, generation)
  }
  return file
}

export function pointsPath(directory: string): string {
  return join(directory, 'points.db')
}

/** Throws where `openPointsFile` would; makes and changes nothing. */
export function checkPointsFile(directory: string, dimension: number): void {
  const file = pointsPath(directory)
  if (!existsSync(file)) return
  lookInto(file, (db) => {
    if (!db.prepare(`select 1 from sqlite_schema where name = 'meta'`).get()) return
    demandValue(db, 'format', formatVersion)
    demandValue(db, 'dimension', dimension)
  })
}

function demandMeta(db: DatabaseSync, key: string, value: number): void {
  db.prepare('insert into meta values (?, ?) on conflict do nothing').run(key, value)
  demandValue(db, key, value)
}

function demandValue(db: DatabaseSync, key: string, value: number): void {
  const found =
    firstRow<{ value: number }>(db.prepare('select value from meta where key = ?'), key)?.value ?? value
  if (found !== value) {
    throw new AppError(
      'invalid_configuration',
      `The vector points on disk have ${key} ${found}, not ${value}: use another data directory or rebuild.`,
    )
  }
}

/** Commits of `work` do not wait for the disk: else the thread would, and every search with it. */
function withoutSync<T>(db: DatabaseSync, work: () => T): T {
  db.exec('pragma synchronous = normal')
  try {
    return work()
  } finally {
    db.exec('pragma synchronous = full')
  }
}

function logPath(path: string): string {
  return `${path}-wal`
}

/** Syncs a file to disk in a thread of the system's pool: writes of the meantime share the next sync. */
function openDisk(path: string) {
  const file = openSync(path, 'r+')
  const sync = promisify(fdatasync)
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  return {
    /** Resolves when all that was written before the call is on disk. After one failure always fails: what it lost is unknown. */
    reached(): Promise<void> {
      next ??= running.then(() => {
        running = next!
        next = undefined
        return sync(file)
      })
      return next
    },
    async close(): Promise<void> {
      await (next ?? running).catch(() => undefined)
      closeSync(file)
    },
  }
}

/** From this size on the log is moved. */
const logBytes = 24 * 2 ** 20
/** When the helper cannot keep up, writing waits for it here. */
const logBytesMax = 256 * 2 ** 20

/**
 * A thread of its own copies the log without holding a lock, which takes long and holds nothing up. What was written
 * meanwhile is little: the writer copies that itself, so that the log starts again from its beginning.
 */
function openCheckpoints(writer: DatabaseSync, path: string, log: MessageLog) {
  writer.exec('pragma wal_autocheckpoint = 0')
  // Started when first needed: many stores never get so far.
  let helper: WorkerClient<CheckpointHandlers> | undefined
  let state: 'rest' | 'copying' | 'copied' | 'helperless' = 'rest'

  async function copy(): Promise<void> {
    state = 'copying'
    try {
      helper ??= openWorker<CheckpointHandlers>(
        { entry: new URL('./checkpoint-thread.ts', import.meta.url), name: 'vectors-checkpoint', data: path },
        (cause) => new AppError('internal_error', 'The checkpoint thread ended.', { cause }),
      )
      await helper.call.checkpoint()
      state = 'copied'
    } catch (error) {
      log('warn', 'vectors.checkpoint-helper-failed', { cause: describeError(error) })
      state = 'helperless'
    }
  }
  return {
    /** To be called after commits, with no transaction open. */
    committed(): void {
      const bytes = statSync(logPath(path), { throwIfNoEntry: false })?.size ?? 0
      if (bytes < logBytes) return
      if (state === 'copied' || state === 'helperless' || bytes > logBytesMax) {
        // The file keeps its size when the log starts again, so it would always look full: cut it.
        writer.exec('pragma wal_checkpoint(truncate)')
        if (state === 'copied') state = 'rest'
      } else if (state === 'rest') void copy()
    },
    async close(): Promise<void> {
      await helper?.terminate()
    },
  }
}
