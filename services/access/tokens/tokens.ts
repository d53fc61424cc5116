/**
 * Says who is behind an ID token, on every call: what the token says about itself is checked by the identity provider, and
 * its agent or person, key or session, and role are those of the database at this moment.
 */

import type { IdentityProvider } from '#engines/identity/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { FollowParts } from '#runtime/follow/follow-topic.ts'
import { agentsChanges, peopleChanges } from '#topics/catalog.ts'
import { createKeyHolders } from '../agent-keys/trades.ts'
import type { Access } from '../agents/agents.ts'
import {
  agentCaller,
  type Caller,
  type CallerRow,
  callerColumns,
  openFollowedCallers,
} from '../callers/caller.ts'
import { aliveSession, touchSession } from '../sessions/sessions.ts'
import { createWatches, type TokenSubject } from './watches.ts'

export type Tokens = Awaited<ReturnType<typeof openTokens>>

interface TokensParts extends FollowParts {
  relational: Relational
  identity: IdentityProvider
  now?: () => number
}

/** The last part of a token is empty where nobody signed it; the provider refuses that by itself. */
const bearer = /^Bearer +([A-Za-z0-9_-]{1,8192}\.[A-Za-z0-9_-]{1,8192}\.[A-Za-z0-9_-]{0,8192})$/i

/** Follows `agents.changes` and `people.changes`; close it after the last answer. */
export async function openTokens(parts: TokensParts) {
  const { identity, relational, now = Date.now } = parts
  const watches = createWatches({
    now,
    find: async (subject) => callers.find(credentialOf(subject)),
    read: (subject) => findCaller(relational, subject),
    log: parts.log,
  })
  const holders = createKeyHolders(relational)
  const callers = await openFollowedCallers({
    ...parts,
    topics: [agentsChanges, peopleChanges],
    async ask(credential) {
      const keyHash = keyHashIn(credential)
      const caller = await (keyHash === undefined
        ? findCaller(relational, subjectIn(credential))
        : holders.find(keyHash))
      return caller && { caller }
    },
    refused: (credential) =>
      keyHashIn(credential) === undefined
        ? refused()
        : new AppError('unauthorized', 'The agent key is not valid.'),
    changed: watches.changed,
  })

  async function authenticate(token: string): Promise<Caller> {
    const { uid, claims, expiresAt } = await identity.verifyIdToken(token)
    const subject = subjectOf(uid, claims)
    if (!subject) throw refused()
    const found = callers.find(credentialOf(subject))
    const caller = found instanceof Promise ? await found : found
    return { ...caller, tokenExpiresAt: expiresAt }
  }

  return {
    /**
     * The caller behind an `Authorization: Bearer <ID token>` header. Rejects with (or throws) AppError `unauthorized`,
     * `token_expired`, `identity_unavailable`, or `relational_engine_unavailable` when only the database knows and it is away.
     */
    authenticate(authorization: string | undefined): Caller | Promise<Caller> {
      const token = bearer.exec(authorization ?? '')?.[1]
      if (token === undefined) throw refused()
      return authenticate(token)
    },
    /**
     * The agent that holds the key of this hash (`hashAgentKey`), as `authenticate` finds who is behind a token. Rejects with (or
     * throws) AppError `unauthorized` for an unknown and a revoked key alike, `relational_engine_unavailable`, `overloaded`.
     */
    keyHolder: (keyHash: string): Caller | Promise<Caller> => callers.find(`${keyCredential}${keyHash}`),
    /**
     * For as long as a stream is open: its signal aborts within a second when the caller's agent or person is deleted, its key
     * or session is ended or its access changes, and when the token runs out. Close it with the stream.
     */
    watch: watches.watch,
    async close(): Promise<void> {
      watches.close()
      await callers.close()
    },
  }
}

/** Tokens are remembered under JSON, keys behind this word. */
const keyCredential = 'key '

function keyHashIn(credential: string): string | undefined {
  return credential.startsWith(keyCredential) ? credential.slice(keyCredential.length) : undefined
}

function refused(): AppError {
  return new AppError('unauthorized', 'Send a valid ID token: Authorization: Bearer …')
}

/** People have no tier: so many operations begin in a second, and may run at once. */
const personBurst = 20

/** Null for claims of another form. */
export function subjectOf(uid: string, claims: Record<string, unknown>): TokenSubject | null {
  const { agent_key, session } = claims
  if (agent_key !== undefined) {
    return typeof agent_key === 'string' ? { kind: 'agent', uid, agentKeyId: agent_key } : null
  }
  // Whatever buys a token names itself in it, so that the token ends with it.
  return typeof session === 'string' ? { kind: 'person', uid, sessionId: session } : null
}

function credentialOf({ kind, uid, agentKeyId, gatewayKeyHash, sessionId }: TokenSubject): string {
  return JSON.stringify({ kind, uid, agentKeyId, gatewayKeyHash, sessionId })
}

function subjectIn(credential: string): TokenSubject {
  return JSON.parse(credential) as TokenSubject
}

/** Undefined when agent or person, key or session are no more. */
function findCaller(executor: SqlExecutor, subject: TokenSubject): Promise<Caller | undefined> {
  return subject.kind === 'agent' ? findAgent(executor, subject) : findPerson(executor, subject)
}

/** For the identity provider: whether a token of these claims would let anybody in. */
export async function mayBuy(
  executor: SqlExecutor,
  uid: string,
  claims: Record<string, unknown>,
): Promise<boolean> {
  const subject = subjectOf(uid, claims)
  if (subject === null || (await findCaller(executor, subject)) === undefined) return false
  return subject.sessionId === undefined || touchSession(executor, subject.sessionId)
}

async function findAgent(
  executor: SqlExecutor,
  { uid, agentKeyId, gatewayKeyHash }: TokenSubject,
): Promise<Caller | undefined> {
  const { rows } = await executor.query<CallerRow>(
    `select ${callerColumns}
     from platform.agents a where a.uid = $1 and ($2::text is null or exists (
       select 1 from platform.agent_keys k
       where k.id = $2 and k.agent_uid = a.uid and k.revoked_at is null
     )) and ($3::bytea is null or exists (
       select 1 from platform.gateway_keys k
       where k.hash = $3 and k.agent_uid = a.uid and k.expires_at > now()
     ))`,
    [uid, agentKeyId ?? null, gatewayKeyHash === undefined ? null : Buffer.from(gatewayKeyHash, 'base64')],
  )
  const row = rows[0]
  if (!row) return undefined
  return { ...agentCaller(row), ...(agentKeyId === undefined ? {} : { agentKeyId }) }
}

interface PersonRow {
  uid: string
  email: string
  name: string
  role: Access
  must_change_password: boolean
}

async function findPerson(
  executor: SqlExecutor,
  { uid, sessionId }: TokenSubject,
): Promise<Caller | undefined> {
  const { rows } = await executor.query<PersonRow>(
    `select uid, email, name, role, must_change_password from platform.people where uid = $1
     and exists (select 1 from platform.sessions s where s.id = $2 and s.person_uid = $1 and ${aliveSession})`,
    [uid, sessionId ?? null],
  )
  const row = rows[0]
  if (!row) return undefined
  const { email, name, role, must_change_password: mustChangePassword } = row
  return {
    kind: 'person',
    uid,
    agentId: uid,
    name,
    role,
    access: role,
    tier: 'agent',
    quota: null,
    burst: personBurst,
    concurrent: personBurst,
    email,
    mustChangePassword,
    ...(sessionId === undefined ? {} : { sessionId }),
  }
}
