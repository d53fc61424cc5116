/** Rows of people, and what every change of one writes with it: its line of the audit, and the record that every instance reads. */

import { v7 as uuidv7 } from 'uuid'
import type { SqlExecutor, SqlValue } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { writeOutbox } from '#runtime/publish/outbox.ts'
import type { PersonChange } from '#schemas/types.ts'
import { peopleChanges } from '#topics/catalog.ts'
import { type Actor, type ChangeDetails, writeAdminAction } from '../admin-audit/admin-audit.ts'
import type { Access } from '../agents/agents.ts'

export interface Person {
  uid: string
  email: string
  name: string
  role: Access
  must_change_password: boolean
  /** Who the person is at a provider; null where that is not known. */
  oidc_issuer: string | null
  oidc_subject: string | null
  /** False: signs in at a provider alone. */
  has_password: boolean
  version: number
  created_at: Date
  signed_in_at: Date | null
}

/** Who changes something, and by which request. */
export interface By {
  actor: Actor
  requestId?: string
}

/** What a change leaves: wait with `waitUntilPublished(relational, outboxId)` before saying that it acts everywhere. */
export interface PersonChanged {
  person: Person
  outboxId: number
}

export const columns =
  'uid, email, name, role, must_change_password, oidc_issuer, oidc_subject, password is not null as has_password, version, created_at, signed_in_at'

export const emailPattern = /^[^\s@\p{C}]{1,64}@[^\s@\p{C}]{1,189}$/u

/** Rows of this e-mail, a parameter, in any case of ASCII letters: U+212A, which folds to k, is in another address. */
export const hasEmail = (param: string) => `lower(email collate "C") = lower(${param}::text collate "C")`

/** By uid, or by e-mail. */
export async function findPerson(executor: SqlExecutor, who: string, lock = ''): Promise<Person | undefined> {
  if (!/^person_[0-9a-z]{26}$/.test(who)) return findByEmail(executor, who, lock)
  const { rows } = await executor.query<Person>(
    `select ${columns} from platform.people where uid = $1 ${lock}`,
    [who],
  )
  return rows[0]
}

/** By e-mail alone: a uid is none. */
export async function findByEmail(
  executor: SqlExecutor,
  email: string,
  lock = '',
): Promise<Person | undefined> {
  if (!emailPattern.test(email)) return undefined
  const { rows } = await executor.query<Person>(
    `select ${columns} from platform.people where ${hasEmail('$1')} ${lock}`,
    [email],
  )
  return rows[0]
}

export async function updateRow(
  tx: SqlExecutor,
  uid: string,
  assignments: string,
  values: SqlValue[],
): Promise<Person> {
  const { rows } = await tx.query<Person>(
    `update platform.people set ${assignments}, version = version + 1, updated_at = now()
     where uid = $1 returning ${columns}`,
    [uid, ...values],
  )
  return rows[0]!
}

/** Writes the change's line of the audit, in its transaction. */
export type PersonNote = (tx: SqlExecutor, change: ChangeDetails & { target: string }) => Promise<void>

/** For changes that are no operations of an operator. */
export function notedBy(by: By, action: string): PersonNote {
  return async (tx, change) => {
    await writeAdminAction(tx, { ...by, action, outcome: 'done', ...change })
  }
}

/** What the audit shows of a person. */
export function shownOf({ email, name, role, oidc_issuer, oidc_subject }: Person) {
  return { email, name, role, ...(oidc_issuer === null ? {} : { oidc_issuer, oidc_subject }) }
}

export function refuseUnknown(): never {
  throw new AppError('not_found', 'There is no such person.')
}

type PersonChangeKind = PersonChange['change']

/** Writes the change's outbox row and returns its id. Call it in the transaction that holds the person's row. */
export function writePersonChange(
  tx: SqlExecutor,
  { uid, role, version }: Pick<PersonChange, 'uid' | 'role' | 'version'>,
  change: PersonChangeKind,
): Promise<number> {
  const value: PersonChange = { uid, change, role, version, occurred_at: Date.now() }
  return writeOutbox(tx, { topic: peopleChanges.name, key: peopleChanges.key(uid), eventId: uuidv7(), value })
}
