/**
 * The first admin: where nobody is admin yet, one instance makes `admin@localhost` with a one-time password in a file,
 * which is removed when that password was replaced.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { makeFolder, syncPath, writeSynced } from '#lib/files.ts'
import { explainSystemFault, fileFaultCode } from '#lib/system-faults.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { newOneTimePassword, type Passwords } from './passwords.ts'
import { insertPerson } from './people.ts'
import { hasEmail, notedBy } from './rows.ts'

export const firstAdminEmail = 'admin@localhost'
const lookEveryMs = 60_000

export interface OneTimePassword {
  password: string
  hash: string
}

/** Makes the first admin's password; hashing it takes a good part of a second. */
export async function prepareFirstPassword(passwords: Passwords): Promise<OneTimePassword> {
  const password = newOneTimePassword()
  return { password, hash: await passwords.hash(password, 'first admin') }
}

interface FirstAdminParts {
  relational: Relational
  home: string
  /** Called where nobody is admin yet. */
  prepare(): Promise<OneTimePassword>
  log: Logger
}

export type FirstAdmin = Awaited<ReturnType<typeof openFirstAdmin>>

/** Throws AppError `invalid_configuration` when the file cannot be written: then there is no admin either. */
export async function openFirstAdmin(parts: FirstAdminParts) {
  const { relational, home, log } = parts
  const file = passwordFile(home)
  if (!(await hasAdmin(relational))) {
    // Before the table is locked: it takes a while.
    const { password, hash } = await parts.prepare()
    if (await make(relational, { file, password, hash })) {
      log.info({ file, email: firstAdminEmail }, 'people.first-admin')
    }
  }
  /** Removes the file once its password was replaced. */
  async function tidy(): Promise<void> {
    if (!existsSync(file) || !(await isReplaced(relational))) return
    rmSync(file, { force: true })
    syncPath(dirname(file))
  }
  // The password may be replaced at another instance.
  const looking = startRepeating(
    { what: 'one-time password of the first admin', everyMs: lookEveryMs, log },
    tidy,
  )
  return { tidy, close: looking.close }
}

export function passwordFile(home: string): string {
  return join(home, 'admin-password')
}

/**
 * The lock makes instances that start at once take turns: the second finds the first one's admin. The file is whole and
 * synced before the row is stored; where the row then is not, the next start writes another.
 */
async function make(
  relational: Relational,
  { file, password, hash }: { file: string; password: string; hash: string },
): Promise<boolean> {
  return relational.transaction(async (tx) => {
    await tx.query('lock table platform.people in share row exclusive mode')
    if (await hasAdmin(tx)) return false
    writeWhole(file, `${password}\n`)
    const note = notedBy({ actor: { kind: 'command_line', id: 'start' } }, 'person.add')
    await insertPerson(
      tx,
      { email: firstAdminEmail, name: 'First admin', role: 'admin', password: hash },
      note,
    )
    return true
  })
}

async function hasAdmin(executor: SqlExecutor): Promise<boolean> {
  // Whoever has its e-mail without being admin was made so by an admin.
  const { rowCount } = await executor.query(
    `select 1 from platform.people where role = 'admin' or ${hasEmail('$1')} limit 1`,
    [firstAdminEmail],
  )
  return rowCount > 0
}

async function isReplaced(executor: SqlExecutor): Promise<boolean> {
  const { rowCount } = await executor.query(
    `select 1 from platform.people where ${hasEmail('$1')} and must_change_password`,
    [firstAdminEmail],
  )
  return rowCount === 0
}

function writeWhole(file: string, text: string): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  try {
    makeFolder(dirname(file))
    writeSynced(draft, text)
    renameSync(draft, file)
    syncPath(dirname(file))
  } catch (error) {
    if (existsSync(draft)) rmSync(draft)
    const why = explainSystemFault(error) ?? describeError(error)
    throw new AppError(
      fileFaultCode(error),
      `The first admin's password cannot be written to ${file}: ${why}. Correct that and start again.`,
      { cause: error },
    )
  }
}
