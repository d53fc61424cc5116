/** The passwords of people that the platform itself keeps: read for a sign-in, and replaced. */

import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { writePersonChange } from './changes.ts'
import {
  type By,
  columns,
  emailPattern,
  hasEmail,
  notedBy,
  type Person,
  type PersonChanged,
  refuseUnknown,
  updateRow,
} from './rows.ts'

interface NewPassword {
  /** What was stored when the present password was checked. */
  before: string
  /** PHC string. */
  after: string
  /** The session that goes on; all others end. */
  keptSession: string | null
}

/** Throws AppError `not_found`, or `conflict` when the password changed since it was checked. */
export function changePassword(
  relational: Relational,
  uid: string,
  { before, after, keptSession }: NewPassword,
  by: By,
): Promise<PersonChanged> {
  return relational.transaction(async (tx) => {
    const { rows } = await tx.query<{ password: string | null }>(
      'select password from platform.people where uid = $1 for update',
      [uid],
    )
    const row = rows[0] ?? refuseUnknown()
    if (row.password !== before) throw new AppError('conflict', 'The password was changed a moment ago.')
    const person = await updateRow(tx, uid, 'password = $2, must_change_password = false', [after])
    const ended = await tx.query(
      'delete from platform.sessions where person_uid = $1 and id is distinct from $2',
      [uid, keptSession],
    )
    await tx.query(
      "delete from platform.refresh_tokens where uid = $1 and claims ->> 'session' is distinct from $2",
      [uid, keptSession],
    )
    await notedBy(by, 'person.password')(tx, { target: uid, after: { ended_sessions: ended.rowCount } })
    return { person, outboxId: await writePersonChange(tx, person, 'password') }
  })
}

/** A hash of today's cost for the same password: nothing that others need to know. */
export async function keepUpgradedHash(
  executor: SqlExecutor,
  uid: string,
  { before, after }: { before: string; after: string },
): Promise<void> {
  await executor.query('update platform.people set password = $3 where uid = $1 and password = $2', [
    uid,
    before,
    after,
  ])
}

/** What a sign-in with a password needs of the account; null when there is none. */
export async function readPasswordOf(
  executor: SqlExecutor,
  email: string,
): Promise<{ person: Person; password: string | null } | null> {
  if (!emailPattern.test(email)) return null
  const { rows } = await executor.query<Person & { password: string | null }>(
    `select ${columns}, password from platform.people where ${hasEmail('$1')}`,
    [email],
  )
  if (!rows[0]) return null
  const { password, ...person } = rows[0]
  return { person, password }
}
