/** Who is behind a request, whatever its credential: an agent with a gateway key or an ID token, or a person. */

import type { FastifyRequest } from 'fastify'
import type { Agent } from '../agents/agents.ts'

type OfAgent = Pick<Agent, 'uid' | 'name' | 'role' | 'access' | 'tier' | 'quota' | 'burst' | 'concurrent'>

export interface Caller extends OfAgent {
  kind: 'agent' | 'person'
  /** Of a person: the uid, so that no log shows an e-mail address. */
  agentId: string
  /** Of an agent with an ID token: the agent key that bought it. */
  agentKeyId?: string
  /** Of a person who signed in with a session. */
  sessionId?: string
  /** When the ID token or gateway key runs out, in ms since 1970: open streams end then. */
  tokenExpiresAt?: number
  /** A person who may do nothing else before that. */
  mustChangePassword?: boolean
  email?: string
}

/** Columns of `platform.agents a` that make a caller. */
export const callerColumns =
  'a.uid, a.agent_id, a.name, a.role, a.access, a.tier, a.quota, a.burst, a.concurrent'

export type CallerRow = OfAgent & Pick<Agent, 'agent_id'>

/** The agent of a row, which may have further columns. */
export function agentCaller(row: CallerRow): Caller {
  const { uid, agent_id: agentId, name, role, access, tier, quota, burst, concurrent } = row
  return { kind: 'agent', uid, agentId, name, role, access, tier, quota, burst, concurrent }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the handler of a route behind the front door runs. */
    caller: Caller | null
  }
}

/** The caller of a route behind the front door. */
export function callerOf(request: FastifyRequest): Caller {
  if (!request.caller) throw new Error('the route does not ask for a credential')
  return request.caller
}
