/**
 * What the routes of a scope ask for: a gateway key, an ID token, or either; the caller behind it is the request's. And what
 * a route asks of the caller's access.
 */

import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { type Credential, describeScope } from '#runtime/http/api/facts.ts'
import { type Access, accessLevels } from '../agents/agents.ts'
import type { GatewayKeys } from '../gateway-keys/gateway-keys.ts'
import type { Tokens } from '../tokens/tokens.ts'
import { type Caller, callerOf } from './caller.ts'

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
  name: 'gatewayKeyOrIdToken',
  bearerFormat: 'vk_live_<43 characters> or JWT',
  description:
    'A gateway key (what `/v1/auth/verify` of the vector gateway answers) or an ID token (see the main API). The requests shown ' +
    `here read it from the shell variable \`${variable}\`.`,
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

/** Without a valid one of either: 401. Somebody with a first password may do nothing here: 403. */
export function requireKeyOrToken(parts: { keys: GatewayKeys; tokens: Tokens }): CredentialCheck {
  return (scope) => {
    describeScope(scope, { credential: keyOrToken, problems: tokenProblems })
    authenticated(scope, (authorization) => callerOfEither(parts, authorization))
    refuseFirstPasswords(scope)
  }
}

/** As `authenticate` of the one or the other. */
export function callerOfEither(
  { keys, tokens }: { keys: GatewayKeys; tokens: Tokens },
  authorization: string | undefined,
): Caller | Promise<Caller> {
  return isGatewayKey(authorization) ? keys.authenticate(authorization) : tokens.authenticate(authorization)
}

function isGatewayKey(authorization: string | undefined): boolean {
  return /^Bearer +vk_live_/i.test(authorization ?? '')
}

type Authenticate = (authorization: string | undefined) => Caller | Promise<Caller>

function authenticated(scope: FastifyInstance, authenticate: Authenticate): void {
  if (!scope.hasRequestDecorator('caller')) scope.decorateRequest('caller', null)
  scope.addHook('onRequest', (request, _reply, done) => {
    let found: Caller | Promise<Caller>
    try {
      found = authenticate(request.headers.authorization)
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
