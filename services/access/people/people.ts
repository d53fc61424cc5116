/**
 * The people of the platform: added, linked with an account at a provider, given another role or password, and removed, each
 * change with its outbox record and its line in the audit in one transaction.
 */

import { ulid } from 'ulid'
import { type Relational, type SqlExecutor, sqlState } from '#engines/relational/port.ts'
import { AppError, invalidField } from '#lib/errors.ts'
import { type Access, accessLevels, isLabel, labelLengthMax } from '../agents/agents.ts'
import {
  type By,
  columns,
  emailPattern,
  findByEmail,
  findPerson,
  hasEmail,
  notedBy,
  type Person,
  type PersonChanged,
  type PersonNote,
  refuseUnknown,
  shownOf,
  updateRow,
  writePersonChange,
} from './rows.ts'

interface NewPerson {
  email: string
  /** By default the part of the e-mail before the @. */
  name?: string
  role?: Access
  /** PHC string of a password that the person has to replace. */
  password?: string
  account?: ProviderAccount
}

const subjectLengthMax = 255

/** Throws AppError `person_exists` (e-mails differ by more than case, of any letters) or `validation_failed`. */
export async function addPerson(
  relational: Relational,
  input: NewPerson,
  note: PersonNote,
): Promise<PersonChanged> {
  checkNewPerson(input)
  return relational.transaction((tx) => insertPerson(tx, input, note))
}

/** As `addPerson`, inside of a transaction. */
export async function insertPerson(
  tx: SqlExecutor,
  input: NewPerson,
  note: PersonNote,
): Promise<PersonChanged> {
  const person = await insertRow(tx, input)
  const outboxId = await writePersonChange(tx, person, 'added')
  await note(tx, { target: person.uid, after: shownOf(person) })
  return { person, outboxId }
}

export async function listPeople(executor: SqlExecutor): Promise<Person[]> {
  const { rows } = await executor.query<Person>(
    `select ${columns} from platform.people order by lower(email), uid`,
  )
  return rows
}

/** By uid, or by e-mail in any case of ASCII letters. Throws AppError `not_found`. */
export async function showPerson(executor: SqlExecutor, who: string): Promise<Person> {
  return (await findPerson(executor, who)) ?? refuseUnknown()
}

/** Throws AppError `not_found`, `validation_failed`, or `last_admin` when no admin would be left. */
export async function setRole(
  relational: Relational,
  who: string,
  role: Access,
  note: PersonNote,
): Promise<PersonChanged> {
  checkRole(role)
  return relational.transaction(async (tx) => {
    const before = await lockOneOfPeople(tx, who, role !== 'admin')
    const person = await updateRow(tx, before.uid, 'role = $2', [role])
    await note(tx, { target: person.uid, before: shownOf(before), after: shownOf(person) })
    return { person, outboxId: await writePersonChange(tx, person, 'role') }
  })
}

/** Ends the person's sessions and tokens. Throws AppError `not_found`, or `last_admin`. */
export function removePerson(relational: Relational, who: string, note: PersonNote): Promise<PersonChanged> {
  return relational.transaction(async (tx) => {
    const person = await lockOneOfPeople(tx, who, true)
    await tx.query('delete from platform.refresh_tokens where uid = $1', [person.uid])
    await tx.query('delete from platform.people where uid = $1', [person.uid])
    await note(tx, { target: person.uid, before: shownOf(person) })
    const gone = { ...person, version: person.version + 1 }
    return { person, outboxId: await writePersonChange(tx, gone, 'removed') }
  })
}

/** `leaves`: the person will be no admin any more. All admins are locked then, so that two changes cannot end the last two. */
async function lockOneOfPeople(tx: SqlExecutor, who: string, leaves: boolean): Promise<Person> {
  const lockAdmins = "select uid from platform.people where role = 'admin' order by uid for update"
  const admins = leaves ? (await tx.query(lockAdmins)).rowCount : 0
  const person = (await findPerson(tx, who, 'for update')) ?? refuseUnknown()
  if (leaves && person.role === 'admin' && admins <= 1) {
    throw new AppError('last_admin', 'This is the last admin: make another person admin first.')
  }
  return person
}

async function insertRow(tx: SqlExecutor, input: NewPerson): Promise<Person> {
  try {
    const { rows } = await tx.query<Person>(
      `insert into platform.people
         (uid, email, name, role, password, must_change_password, oidc_issuer, oidc_subject)
       values ($1, $2, $3, $4, $5, $6, $7, $8) returning ${columns}`,
      [
        `person_${ulid().toLowerCase()}`,
        input.email,
        input.name ?? input.email.slice(0, input.email.indexOf('@')),
        input.role ?? 'member',
        input.password ?? null,
        input.password !== undefined,
        input.account?.issuer ?? null,
        input.account?.subject ?? null,
      ],
    )
    return rows[0]!
  } catch (error) {
    if (sqlState(error) !== '23505') throw error
    throw new AppError('person_exists', 'A person with this e-mail or account exists already.', {
      cause: error,
    })
  }
}

/** Throws AppError `validation_failed`. */
export function checkNewPerson({ email, name, role, account }: NewPerson): void {
  if (!emailPattern.test(email) || !email.isWellFormed()) {
    throw invalidField('email', 'must be an e-mail address')
  }
  if (name !== undefined && !isLabel(name)) {
    throw invalidField('name', `must have 1 to ${labelLengthMax} characters`)
  }
  if (role !== undefined) checkRole(role)
  if (account && !new RegExp(`^[\\x20-\\x7e]{1,${subjectLengthMax}}$`).test(account.subject)) {
    throw invalidField('oidc_subject', `must have 1 to ${subjectLengthMax} visible ASCII characters`)
  }
}

function checkRole(role: Access): void {
  if (!accessLevels.includes(role)) throw invalidField('role', `must be one of ${accessLevels.join(', ')}`)
}

interface NewPassword {
  /** The stored hash at the check of the present password. */
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

/** An account at a provider. */
export interface ProviderAccount {
  issuer: string
  subject: string
}

/**
 * The person with this account at a provider; else the one whose verified e-mail it has, who is linked with it. A password
 * that the person never replaced ends by that. Throws AppError `forbidden` when there is no such person.
 */
export function personOfAccount(
  relational: Relational,
  account: ProviderAccount,
  verifiedEmail: string | null,
  requestId: string,
): Promise<Person> {
  return relational.transaction(async (tx) => {
    const { rows } = await tx.query<Person>(
      `select ${columns} from platform.people where oidc_issuer = $1 and oidc_subject = $2`,
      [account.issuer, account.subject],
    )
    if (rows[0]) return rows[0]
    const named = verifiedEmail === null ? undefined : await findByEmail(tx, verifiedEmail, 'for update')
    if (!named || named.oidc_subject !== null) {
      throw new AppError(
        'forbidden',
        'No person of this platform has this account or its verified e-mail: ask an admin to add you.',
      )
    }
    const person = await updateRow(
      tx,
      named.uid,
      `oidc_issuer = $2, oidc_subject = $3, must_change_password = false,
       password = case when must_change_password then null else password end`,
      [account.issuer, account.subject],
    )
    const by = { actor: { kind: 'person' as const, id: person.uid }, requestId }
    await notedBy(by, 'person.link')(tx, {
      target: person.uid,
      before: shownOf(named),
      after: shownOf(person),
    })
    await writePersonChange(tx, person, 'password')
    return person
  })
}
