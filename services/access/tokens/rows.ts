/** Asks the database who is behind a token: the agent with its agent key, or the person with their session. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import type { Access } from '../agents/agents.ts'
import { agentCaller, type Caller, type CallerRow, callerColumns } from '../callers/caller.ts'
import { aliveSession, touchSession } from '../sessions/sessions.ts'

/** What a token names; as text it is the credential under which its caller is remembered. */
export interface TokenSubject {
  kind: Caller['kind']
  uid: string
  agentKeyId?: string
  sessionId?: string
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

export function credentialOf({ kind, uid, agentKeyId, sessionId }: TokenSubject): string {
  return JSON.stringify([kind, uid, agentKeyId ?? sessionId ?? null])
}

export function subjectIn(credential: string): TokenSubject {
  const [kind, uid, id] = JSON.parse(credential) as [Caller['kind'], string, string | null]
  if (id === null) return { kind, uid }
  return kind === 'agent' ? { kind, uid, agentKeyId: id } : { kind, uid, sessionId: id }
}

/** Undefined when agent or person, key or session are no more. */
export function findCaller(executor: SqlExecutor, subject: TokenSubject): Promise<Caller | undefined> {
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

/** Without the id of an agent key, as behind a gateway key, only the agent has to be there. */
async function findAgent(
  executor: SqlExecutor,
  { uid, agentKeyId }: TokenSubject,
): Promise<Caller | undefined> {
  const { rows } = await executor.query<CallerRow>(
    `select ${callerColumns}
     from platform.agents a where a.uid = $1 and ($2::text is null or exists (
       select 1 from platform.agent_keys k
       where k.id = $2 and k.agent_uid = a.uid and k.revoked_at is null
     ))`,
    [uid, agentKeyId ?? null],
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
