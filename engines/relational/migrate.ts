/**
 * Brings a database's tables up to date: numbered .sql files are applied once each, in order. Instances that do it at the same time
 * get in each other's way, and try again.
 */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { sleep } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import { type Relational, type SqlExecutor, sqlState } from './port.ts'

/** Between tries; each waits for the other instance as long as the engine lets a statement wait. */
const pauseMs = 500

interface Migration {
  name: string
  text: string
  checksum: string
}

/**
 * Applies what is missing of the `NNN-name.sql` files of all folders, in the order of their numbers, each in a
 * transaction of its own. Any number of instances may start at once: a lock on the table of migrations, held inside
 * each transaction, lets one go ahead. Throws AppError `invalid_configuration` when a file that was applied has
 * changed since, an Error when two files have one number, and the SQL fault of a file that fails (nothing of it is
 * kept).
 */
export async function migrate(
  relational: Relational,
  log: Logger,
  folders: readonly string[],
): Promise<void> {
  const migrations = loadMigrations(folders)
  await whileRacing([...createdAtOnce, ...lockedOut], pauseMs, () => createTable(relational))
  const pending = await pendingOf(relational, migrations)
  const applied: string[] = []
  for (const migration of pending) {
    if (await whileRacing(lockedOut, pauseMs, () => apply(relational, migration)))
      applied.push(migration.name)
  }
  if (applied.length > 0) log.info({ applied: applied.length, last: applied.at(-1) }, 'relational.migrated')
}

/**
 * The names of the migrations that `migrate` would apply; changes nothing. Throws AppError `invalid_configuration` as it
 * does.
 */
export async function missingMigrations(
  executor: SqlExecutor,
  folders: readonly string[],
): Promise<string[]> {
  const migrations = loadMigrations(folders)
  const pending = (await hasTable(executor)) ? await pendingOf(executor, migrations) : migrations
  return pending.map(({ name }) => name)
}

function loadMigrations(folders: readonly string[]): Migration[] {
  const migrations = folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => /^\d+-.*\.sql$/.test(name))
      .map((name) => {
        const text = readFileSync(join(folder, name), 'utf8')
        return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
      }),
  )
  migrations.sort((a, b) => numberOf(a) - numberOf(b))
  migrations.forEach((one, at) => {
    const next = migrations[at + 1]
    if (next && numberOf(one) === numberOf(next)) {
      throw new Error(`The migrations ${one.name} and ${next.name} have one number: take the next free one`)
    }
  })
  return migrations
}

function numberOf({ name }: Migration): number {
  return Number.parseInt(name, 10)
}

async function createTable(relational: Relational): Promise<void> {
  if (await hasTable(relational)) return
  await relational.query(
    `create table if not exists public.platform_migrations (
       name text primary key, checksum text not null, applied_at timestamptz not null default now())`,
  )
}

async function hasTable(executor: SqlExecutor): Promise<boolean> {
  const { rows } = await executor.query(`select to_regclass('public.platform_migrations') as name`)
  return rows[0]?.name != null
}

/** Those not applied yet; throws when an applied one is not the file of today. */
async function pendingOf(executor: SqlExecutor, migrations: Migration[]): Promise<Migration[]> {
  const { rows } = await executor.query<{ name: string; checksum: string }>(
    'select name, checksum from public.platform_migrations',
  )
  const applied = new Map(rows.map((row) => [row.name, row.checksum]))
  for (const { name, checksum } of migrations) {
    const known = applied.get(name)
    if (known !== undefined && known !== checksum) {
      throw new AppError(
        'invalid_configuration',
        `Migration ${name} was changed after it had been applied to this database; restore it and put the change into a new file.`,
      )
    }
  }
  return migrations.filter(({ name }) => !applied.has(name))
}

/** False where another instance was first. */
function apply(relational: Relational, migration: Migration): Promise<boolean> {
  return relational.transaction(async (tx) => {
    await tx.query('lock table public.platform_migrations in exclusive mode')
    if ((await pendingOf(tx, [migration])).length === 0) return false
    await tx.query(migration.text)
    await tx.query('insert into public.platform_migrations (name, checksum) values ($1, $2)', [
      migration.name,
      migration.checksum,
    ])
    return true
  })
}

/**
 * Two instances created the same thing at once. PostgreSQL's `if not exists` does not wait for a transaction that is
 * creating it: the later one meets a unique index of the catalogue, or an object that has been created meanwhile.
 */
export const createdAtOnce = ['23505', '42P07', '42710', '42P06']
/** Two instances, or two databases of one server, changed the same row of the catalogue at once (a grant, a role). */
export const changedAtOnce = ['XX000', '40P01', '40001']
/** Waited too long for the other instance's lock. */
export const lockedOut = ['57014', '55P03', '40P01']

const triesMax = 20

/**
 * Tries again after each fault of one of these SQLSTATEs, a bounded number of times; any other fault is thrown as it
 * is.
 */
export async function whileRacing<T>(
  states: readonly string[],
  pauseMs: number,
  work: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries === triesMax || !states.includes(sqlState(error) ?? '')) throw error
      await sleep(pauseMs)
    }
  }
}
