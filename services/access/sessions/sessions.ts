/**
 * Sessions of people. A browser holds one by two secrets: a cookie, which goes to every port of its host, and a half,
 * which stays with the page. Only both together buy an ID token.
 */

import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Logger } from 'pino'
import { ulid } from 'ulid'
import type { AnyIdentityProvider } from '#engines/identity/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { writeAdminAction } from '../admin-audit/admin-audit.ts'
import type { Access } from '../agents/agents.ts'
import { type Person, writePersonChange } from '../people/rows.ts'
import type { BoughtToken, FirebasePeople } from '../people/sign-in.ts'
import { type SecretKey, seal, unseal } from '../secrets/sealing.ts'

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

/** A session that both secrets were shown for. */
export interface HeldSession {
  id: string
  personUid: string
  email: string
  name: string
  role: Access
  mustChangePassword: boolean
  /** As it is kept; null for a session that has just begun, or began here. */
  providerToken: Buffer | null
  endsAt: Date
}

/** Condition on a row `s`: neither idle for too long nor too old. */
export const aliveSession = `s.used_at > now() - make_interval(secs => ${sessionIdleS})
  and s.created_at > now() - make_interval(secs => ${sessionAgeS})`
const endsAt = `least(s.created_at + make_interval(secs => ${sessionAgeS}),
  s.used_at + make_interval(secs => ${sessionIdleS}))`

export type Sessions = ReturnType<typeof openSessions>

export function openSessions({ relational, log }: { relational: Relational; log: Logger }) {
  // What is over is refused anyway: it is deleted so that the tables stay small.
  const sweeping = startRepeating(
    { what: 'sweep of sessions', everyMs: sweepEveryMs, firstAfterMs: sweepEveryMs, log },
    async () => {
      await relational.query(`delete from platform.sessions s where not (${aliveSession})`)
      await relational.query('delete from platform.sign_in_codes where expires_at < now()')
      await relational.query('delete from platform.refresh_tokens where expires_at < now()')
    },
  )
  return {
    /** Throws AppError `unauthorized` when the person was changed or removed at this moment. */
    begin: (session: NewSession) => relational.transaction((tx) => begin(tx, session)),
    /** Counts as use. Throws AppError `unauthorized` for whatever is not a session with both its secrets. */
    use: (cookie: string | undefined, half: string | undefined) => use(relational, cookie, half),
    /** Ends the session of a cookie; false when there is none. Its tokens end on every instance. */
    end: (cookie: string | undefined, requestId: string) =>
      relational.transaction((tx) => end(tx, cookie, requestId)),
    close: sweeping.close,
  }
}

/** `cookie` is the value of the cookie. */
async function begin(tx: SqlExecutor, session: NewSession) {
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
type ChangedPerson = Pick<Person, 'uid' | 'role' | 'version'>

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

/** In a transaction. The person's row is locked first, so that the records of its changes are in order. */
async function end(tx: SqlExecutor, cookie: string | undefined, requestId: string): Promise<boolean> {
  const session = await findRow(tx, cookie)
  if (!session) return false
  const { rows } = await tx.query<ChangedPerson>(
    `select uid, role, version from platform.people
     where uid = (select person_uid from platform.sessions where id = $1) for update`,
    [session.id],
  )
  const person = rows[0]
  const ended = await tx.query('delete from platform.sessions where id = $1', [session.id])
  if (!person || ended.rowCount === 0) return false
  await writePersonChange(tx, person, 'signed_out')
  await writeAdminAction(tx, {
    actor: { kind: 'person', id: person.uid },
    action: 'person.sign_out',
    target: session.id,
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

/** ID tokens are short-lived, so that most of what a thief of one could do is over soon; Google knows an hour alone. */
const sessionTokenTtlS = 600

interface SessionTokensParts {
  identity: AnyIdentityProvider
  firebase: FirebasePeople | null
  providerTokens: ProviderTokens
}

/**
 * An ID token of the session's person that names the session, so that it ends with it. Under Firebase the account is asked
 * for first. Throws AppError `unauthorized` when it is not in force any more, `identity_unavailable`.
 */
export async function buyIdToken(
  parts: SessionTokensParts,
  session: Pick<HeldSession, 'id' | 'personUid' | 'providerToken'>,
): Promise<BoughtToken> {
  const { identity, firebase } = parts
  const claims = { session: session.id }
  if (identity.driver === 'local') {
    return {
      idToken: await identity.idToken(session.personUid, claims, sessionTokenTtlS),
      expiresInS: sessionTokenTtlS,
    }
  }
  if (!firebase) throw new AppError('identity_unavailable', 'FIREBASE_WEB_API_KEY is not set.')
  if (session.providerToken !== null) {
    const token = parts.providerTokens.open(session.id, session.providerToken)
    if (token === null)
      throw new AppError('unauthorized', 'The session does not open any more: sign in again.')
    await firebase.confirm(token)
  }
  const { customToken } = await identity.createCustomToken(session.personUid, claims)
  return firebase.exchange(customToken)
}

export type ProviderTokens = ReturnType<typeof createProviderTokens>

/** The refresh token of a provider is kept encrypted with the session that it began. */
export function createProviderTokens(key: SecretKey) {
  const name = (sessionId: string) => `provider token of ${sessionId}`
  return {
    /** It opens for this session alone. */
    seal: (sessionId: string, token: string) => seal(key, name(sessionId), Buffer.from(token)),
    /** Null for a token that was not sealed for this session. */
    open: (sessionId: string, sealed: Buffer) =>
      unseal([key], name(sessionId), sealed)?.toString('utf8') ?? null,
  }
}
