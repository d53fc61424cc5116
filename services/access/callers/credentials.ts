/**
 * What the routes of a scope ask for: a gateway key, an ID token, or any of these and agent keys; the caller behind it is the
 * request's. And what a route asks of the caller's access. Also finds the agent behind a gateway key, and shows which keys an agent has.
 */

import { hash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import type { FollowParts } from '#runtime/follow/follow-topic.ts'
import { type Credential, describeScope } from '#runtime/http/api/facts.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { agentsChanges } from '#topics/catalog.ts'
import { isAgentKey, type StaticKeys } from '../agent-keys/static-keys.ts'
import { type Access, accessLevels } from '../agents/agents.ts'
import type { Tokens } from '../tokens/tokens.ts'
import {
  agentCaller,
  type Caller,
  type CallerRow,
  callerColumns,
  callerOf,
  type Found,
  openFollowedCallers,
} from './caller.ts'

/** Makes a scope ask for a credential: what it does not let in is answered before its body is read. */
export type CredentialCheck = (scope: FastifyInstance) => void

const variable = 'ID_TOKEN'

const gatewayKey: Credential = {
  name: 'gatewayKey',
  bearerFormat: 'vk_live_<43 characters>',
  description:
    'A gateway key: what `/v1/auth/verify` of the vector gateway answers, for an hour where nothing else is set. The requests ' +
    'shown here read it from the shell variable `GATEWAY_API_KEY`; the one of verify sets it.',
  variable: 'GATEWAY_API_KEY',
}

const idToken: Credential = {
  name: 'idToken',
  bearerFormat: 'JWT',
  description:
    'An ID token of the identity provider: an agent trades its agent key for a custom token at `/api/v1/auth/agent` of the main ' +
    'API, and that for an ID token at the provider; people sign in. The requests shown here read it from the shell variable ' +
    `\`${variable}\`.`,
  variable,
}

const keyOrToken: Credential = {
  name: 'keyOrIdToken',
  bearerFormat: 'vk_live_<43 characters>, svc_<64 hex digits> or JWT',
  description:
    'A gateway key (what `/v1/auth/verify` of the vector gateway answers), an ID token (see the main API), or an agent key, for ' +
    'programs that hold one key for good. After 5 wrong tries at once, or 10 in a minute, an agent key is refused for a while; an ' +
    `address may send 100 wrong ones a second. The requests shown here read it from the shell variable \`${variable}\`.`,
  variable,
}

const tokenProblems = [
  'unauthorized',
  'token_expired',
  'relational_engine_unavailable',
  'identity_unavailable',
] as const

/** Without a valid gateway key: 401. */
export function requireGatewayKey({ keys }: { keys: GatewayKeys }): CredentialCheck {
  return (scope) => {
    describeScope(scope, {
      credential: gatewayKey,
      problems: ['unauthorized', 'relational_engine_unavailable'],
    })
    authenticated(scope, (authorization) => keys.authenticate(authorization))
  }
}

/** Without a valid ID token: 401. */
export function requireToken({ tokens }: { tokens: Tokens }): CredentialCheck {
  return (scope) => {
    describeScope(scope, { credential: idToken, problems: tokenProblems })
    authenticated(scope, (authorization) => tokens.authenticate(authorization))
  }
}

/** What knows the callers behind all three credentials. */
export interface AnyCallers {
  keys: GatewayKeys
  staticKeys: StaticKeys
  tokens: Tokens
}

/** Without a valid gateway key, agent key or ID token: 401. Somebody with a first password may do nothing here: 403. */
export function requireKeyOrToken(parts: AnyCallers): CredentialCheck {
  return (scope) => {
    describeScope(scope, { credential: keyOrToken, problems: [...tokenProblems, 'rate_limited'] })
    authenticated(scope, (_authorization, request) => callerOfAny(parts, request))
    refuseFirstPasswords(scope)
  }
}

/** As `authenticate` of the one that knows the request's credential. */
export function callerOfAny(
  { keys, staticKeys, tokens }: AnyCallers,
  { headers: { authorization }, ip }: Pick<FastifyRequest, 'headers' | 'ip'>,
): Caller | Promise<Caller> {
  if (isGatewayKey(authorization)) return keys.authenticate(authorization)
  if (isAgentKey(authorization)) return staticKeys.authenticate(authorization, ip)
  return tokens.authenticate(authorization)
}

function isGatewayKey(authorization: string | undefined): boolean {
  return /^Bearer +vk_live_/i.test(authorization ?? '')
}

type Authenticate = (authorization: string | undefined, request: FastifyRequest) => Caller | Promise<Caller>

function authenticated(scope: FastifyInstance, authenticate: Authenticate): void {
  if (!scope.hasRequestDecorator('caller')) scope.decorateRequest('caller', null)
  scope.addHook('onRequest', (request, _reply, done) => {
    let found: Caller | Promise<Caller>
    try {
      found = authenticate(request.headers.authorization, request)
    } catch (error) {
      return done(error as Error)
    }
    // A credential that is cached costs no turn of the event loop.
    if (!(found instanceof Promise)) {
      accept(request, found)
      return done()
    }
    found.then((caller) => {
      accept(request, caller)
      done()
    }, done)
  })
}

function accept(request: FastifyRequest, caller: Caller): void {
  request.caller = caller
  request.agentId = caller.agentId
}

function refuseFirstPasswords(scope: FastifyInstance): void {
  scope.addHook('onRequest', (request, _reply, done) => {
    if (!callerOf(request).mustChangePassword) return done()
    done(
      new AppError(
        'password_change_required',
        'Change the password first, at the main API: PUT /api/v1/me/password.',
      ),
    )
  })
}

/**
 * An `onRequest` hook for routes behind `requireGatewayKey`: callers with less access than `least` are answered 403 `forbidden`
 * before their body is read.
 */
export function leastAccess(least: Exclude<Access, 'viewer'>): onRequestHookHandler {
  // From the highest to the lowest.
  const allowed = accessLevels.slice(0, accessLevels.indexOf(least) + 1)
  return (request, _reply, done) => {
    if (allowed.includes(callerOf(request).access)) return done()
    done(new AppError('forbidden', `This needs an agent with access ${allowed.join(' or ')}.`))
  }
}

export type GatewayKeys = Awaited<ReturnType<typeof openGatewayKeys>>

const bearer = /^Bearer +(vk_live_[A-Za-z0-9_-]{43})$/i
const sweepEveryMs = 10 * 60_000

/**
 * Follows `agents.changes`: any change of an agent drops its cached keys. A cached key counts only while that tail is
 * current; else, and every 60 s, the database is asked.
 */
export async function openGatewayKeys(parts: FollowParts & { relational: Relational }) {
  const { relational, log } = parts
  const callers = await openFollowedCallers({
    ...parts,
    topics: [agentsChanges],
    ask: (keyHash) => askDatabase(relational, keyHash),
    refused,
  })

  // What ran out is refused anyway: it is deleted so that the tables stay small.
  const sweeping = startRepeating(
    { what: 'sweep of gateway keys', everyMs: sweepEveryMs, firstAfterMs: sweepEveryMs, log },
    async () => {
      await relational.query('delete from platform.gateway_keys where expires_at < now()')
      await relational.query('delete from platform.challenges where expires_at < now()')
    },
  )
  return {
    /**
     * The agent behind an `Authorization: Bearer vk_live_…` header; at once when the key is cached. Throws (or rejects
     * with) AppError `unauthorized` for whatever is not a valid key, `relational_engine_unavailable` when only the
     * database knows and it is away.
     */
    authenticate(authorization: string | undefined): Caller | Promise<Caller> {
      const key = bearer.exec(authorization ?? '')?.[1]
      if (key === undefined) throw refused()
      return callers.find(hash('sha256', key, 'base64'))
    },
    async close(): Promise<void> {
      await sweeping.close()
      await callers.close()
    },
  }
}

async function askDatabase(relational: Relational, keyHash: string): Promise<Found | undefined> {
  const { rows } = await relational.query<CallerRow & { left_ms: number }>(
    `select ${callerColumns},
            (extract(epoch from k.expires_at - now()) * 1000)::bigint as left_ms
     from platform.gateway_keys k join platform.agents a on a.uid = k.agent_uid
     where k.hash = $1 and k.expires_at > now()`,
    [Buffer.from(keyHash, 'base64')],
  )
  const row = rows[0]
  if (!row) return undefined
  // The database's clock decides; this one only counts down.
  const expiresAt = Date.now() + Number(row.left_ms)
  return { caller: { ...agentCaller(row), gatewayKeyHash: keyHash, tokenExpiresAt: expiresAt }, expiresAt }
}

function refused(): AppError {
  return new AppError('unauthorized', 'Send a valid gateway key: Authorization: Bearer vk_live_…')
}

interface Session {
  key: string
  created_at: string
  expires_at: string
}

const sessionsMax = 1_000

export async function readSessions(executor: SqlExecutor, uid: string): Promise<Session[]> {
  const { rows } = await executor.query<{ shown: string; created_at: Date; expires_at: Date }>(
    `select shown, created_at, expires_at from platform.gateway_keys
     where agent_uid = $1 and expires_at > now() order by created_at desc limit ${sessionsMax}`,
    [uid],
  )
  return rows.map(({ shown, created_at, expires_at }) => ({
    key: shown,
    created_at: created_at.toISOString(),
    expires_at: expires_at.toISOString(),
  }))
}
