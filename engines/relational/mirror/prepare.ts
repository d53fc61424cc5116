/**
 * Brings a database to where the mirror can use it: schemas, reading role and live tables. Running it again changes
 * nothing.
 */

import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { AppError } from '#lib/errors.ts'
import { migrate } from '../migrate.ts'
import { type Relational, sqlState } from '../port.ts'
import { changedAtOnce, createdAtOnce, lockedOut, whileRacing } from '../racing.ts'
import { createTables, ensureReader, indexStatement, liveTables } from './tables.ts'

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
