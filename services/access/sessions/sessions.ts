/**
 * Sessions of people. A browser holds one by two secrets: a cookie, which goes to every port of its host, and a half,
 * which stays with the page. Only both together buy an ID token.
 */

import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Logger } from 'pino'
import { ulid } from 'ulid'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { writeAdminAction } from '../admin-audit/admin-audit.ts'
import type { Access } from '../agents/agents.ts'
import { writePersonChange } from '../people/rows.ts'

/** Without being used for so long a session is over. */
const sessionIdleS = 12 * 3_600
/** No session is older. */
export const sessionAgeS = 7 * 86_400
/** One more ends the one that was used least recently. */
const perPersonMax = 50
const secretBytes = 32
const sweepEveryMs = 10 * 60_000

interface NewSession {
  /** As it was when the person proved who they are: a password that changed since begins no session. */
  person: { uid: string; version: number }
  requestId: string
  /** How the person signed in; in the audit. */
  by: 'password' | 'oidc'
  /** False: without cookie and half, for who keeps a refresh token. */
  browser: boolean
  /** The provider's refresh token, encrypted, by the session's id. */
  providerToken?: (sessionId: string) => Buffer
}

interface BegunSession {
  id: string
  /** Value of the cookie. */
  cookie: string
  half: string
  endsAt: Date
}

/** A session that both secrets were shown for. */
export interface HeldSession {
  id: string
  personUid: string
  email: string
  name: string
  role: Access
  mustChangePassword: boolean
  providerToken: Buffer | null
  endsAt: Date
}

export interface Sessions extends Closeable {
  /** Throws AppError `unauthorized` when the person was changed or removed at this moment. */
  begin(session: NewSession): Promise<BegunSession>
  /** Counts as use. Throws AppError `unauthorized` for whatever is not a session with both its secrets. */
  use(cookie: string | undefined, half: string | undefined): Promise<HeldSession>
  /** Ends the session of a cookie; false when there is none. Its tokens end on every instance. */
  end(cookie: string | undefined, requestId: string): Promise<boolean>
}

/** Condition on a row `s`: neither idle for too long nor too old. */
export const aliveSession = `s.used_at > now() - make_interval(secs => ${sessionIdleS})
  and s.created_at > now() - make_interval(secs => ${sessionAgeS})`
const endsAt = `least(s.created_at + make_interval(secs => ${sessionAgeS}),
  s.used_at + make_interval(secs => ${sessionIdleS}))`

export function openSessions({ relational, log }: { relational: Relational; log: Logger }): Sessions {
  // Sessions that are over are refused anyway: they are deleted so that the table stays small.
  const sweeping = startRepeating(
    { what: 'sweep of sessions', everyMs: sweepEveryMs, firstAfterMs: sweepEveryMs, log },
    async () => {
      await relational.query(`delete from platform.sessions s where not (${aliveSession})`)
      await relational.query('delete from platform.sign_in_codes where expires_at < now()')
    },
  )
  return {
    begin: (session) => relational.transaction((tx) => begin(tx, session)),
    use: (cookie, half) => use(relational, cookie, half),
    end: (cookie, requestId) => relational.transaction((tx) => end(tx, cookie, requestId)),
    close: () => sweeping.close(),
  }
}

async function begin(tx: SqlExecutor, session: NewSession): Promise<BegunSession> {
  const { uid: personUid, version } = session.person
  const people = await tx.query<ChangedPerson>(
    `update platform.people set signed_in_at = now() where uid = $1 and version = $2
     returning uid, role, version`,
    [personUid, version],
  )
  const person = people.rows[0]
  if (!person) throw refused()
  const id = `session_${ulid().toLowerCase()}`
  const secret = randomBytes(secretBytes).toString('base64url')
  const half = randomBytes(secretBytes).toString('base64url')
  if (await makeRoom(tx, personUid)) await writePersonChange(tx, person, 'signed_out')
  const { rows } = await tx.query<{ ends_at: Date }>(
    `insert into platform.sessions as s (id, person_uid, secret_hash, half_hash, provider_token)
     values ($1, $2, $3, $4, $5) returning ${endsAt} as ends_at`,
    [
      id,
      personUid,
      session.browser ? hashOf(secret) : null,
      session.browser ? hashOf(half) : null,
      session.providerToken?.(id) ?? null,
    ],
  )
  await writeAdminAction(tx, {
    actor: { kind: 'person', id: personUid },
    action: 'person.sign_in',
    target: id,
    after: { by: session.by },
    requestId: session.requestId,
    outcome: 'done',
  })
  return { id, cookie: `${id}.${secret}`, half, endsAt: rows[0]!.ends_at }
}

/** True when a session had to go. */
async function makeRoom(tx: SqlExecutor, personUid: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `delete from platform.sessions where id in (
       select id from platform.sessions where person_uid = $1 order by used_at desc, id desc offset $2)`,
    [personUid, perPersonMax - 1],
  )
  return rowCount > 0
}

/** What a record of people.changes says. */
interface ChangedPerson {
  uid: string
  role: Access
  version: number
}

interface SessionRow {
  id: string
  secret_hash: Buffer | null
  half_hash: Buffer | null
}

async function use(
  relational: Relational,
  cookie: string | undefined,
  half: string | undefined,
): Promise<HeldSession> {
  const row = await findRow(relational, cookie)
  if (!row || !half || !isHashOf(row.half_hash, half)) throw refused()
  const { rows } = await relational.query<Omit<HeldSession, 'id'>>(
    `update platform.sessions s set used_at = now() from platform.people p
     where s.id = $1 and p.uid = s.person_uid and ${aliveSession}
     returning p.uid as "personUid", p.email, p.name, p.role, p.must_change_password as "mustChangePassword",
               s.provider_token as "providerToken", ${endsAt} as "endsAt"`,
    [row.id],
  )
  if (!rows[0]) throw refused()
  return { id: row.id, ...rows[0] }
}

async function end(tx: SqlExecutor, cookie: string | undefined, requestId: string): Promise<boolean> {
  const row = await findRow(tx, cookie)
  return row ? endSession(tx, row.id, requestId) : false
}

/** In a transaction. The person's row is locked first, so that the records of its changes are in order. */
async function endSession(tx: SqlExecutor, id: string, requestId: string): Promise<boolean> {
  const { rows } = await tx.query<ChangedPerson>(
    `select uid, role, version from platform.people
     where uid = (select person_uid from platform.sessions where id = $1) for update`,
    [id],
  )
  const person = rows[0]
  const ended = await tx.query('delete from platform.sessions where id = $1', [id])
  if (!person || ended.rowCount === 0) return false
  await writePersonChange(tx, person, 'signed_out')
  await writeAdminAction(tx, {
    actor: { kind: 'person', id: person.uid },
    action: 'person.sign_out',
    target: id,
    requestId,
    outcome: 'done',
  })
  return true
}

/** Counts a use of a session that a refresh token belongs to; false when it is over. */
export async function touchSession(executor: SqlExecutor, id: string): Promise<boolean> {
  const { rowCount } = await executor.query(
    `update platform.sessions s set used_at = now() where s.id = $1 and ${aliveSession}`,
    [id],
  )
  return rowCount > 0
}

/** By the cookie's secret alone. */
async function findRow(executor: SqlExecutor, cookie: string | undefined): Promise<SessionRow | null> {
  const [, id, secret] = /^(session_[0-9a-z]{26})\.([A-Za-z0-9_-]{43})$/.exec(cookie ?? '') ?? []
  if (id === undefined || secret === undefined) return null
  const { rows } = await executor.query<SessionRow>(
    `select s.id, s.secret_hash, s.half_hash from platform.sessions s where s.id = $1 and ${aliveSession}`,
    [id],
  )
  return rows[0] && isHashOf(rows[0].secret_hash, secret) ? rows[0] : null
}

function hashOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}

function isHashOf(stored: Buffer | null, secret: string): boolean {
  return stored !== null && timingSafeEqual(stored, hashOf(secret))
}

function refused(): AppError {
  return new AppError('unauthorized', 'The session is over, or its other half is missing: sign in again.')
}
