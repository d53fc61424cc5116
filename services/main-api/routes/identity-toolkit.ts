/**
 * The local issuer as clients of Firebase expect it: Identity Toolkit's paths, fields and error strings, so that a client
 * changes only an address.
 */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { LocalIssuer } from '#engines/identity/port.ts'
import { AppError } from '#lib/errors.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import type { Problem } from '#runtime/http/problem.ts'
import { limitedByAddress } from '#runtime/http/strangers.ts'
import type { MainApi } from '../main-api.ts'
import { curl, fieldsOf, registerAccountLookup, registerPasswordSignIn, textIn } from './identity-accounts.ts'

const hosts = ['/identitytoolkit.googleapis.com', '/securetoken.googleapis.com']

/** In `scope` and with its hooks, which add Google's form. Routes that are added later are known. */
function refuseUnknownCalls(scope: FastifyInstance): void {
  const known = new Set<string>()
  // Two colons are one.
  scope.addHook('onRoute', ({ url }) => void known.add(url.replace('::', ':')))
  for (const prefix of hosts) {
    scope.register(
      async (host) => {
        host.setNotFoundHandler((request, reply) => {
          if (!known.has(request.url.replace(/\?.*/s, ''))) {
            throw new AppError('not_found', 'The local issuer does not have this call.')
          }
          reply.header('allow', 'POST')
          throw new AppError('method_not_allowed', 'Use POST at this address.')
        })
      },
      { prefix },
    )
  }
}

const perAddress = [{ count: 100, windowMs: 1_000 }]
const formBytesMax = 16 * 1_024

const token = (description: string) => Type.String({ description })

/** Google's clients send more fields than these; whatever is wrong has one of Google's strings. */
const exchangeBody = Type.Unsafe<unknown>(
  shownAs(
    Type.Object(
      {
        token: token('The custom token.'),
        returnSecureToken: Type.Optional(Type.Boolean({ examples: [true] })),
      },
      { title: 'CustomTokenExchange' },
    ),
  ),
)

const exchanged = Type.Object(
  {
    kind: Type.String(),
    isNewUser: Type.Boolean(),
    idToken: token('The Bearer credential of /api/v1.'),
    refreshToken: token('Buys the next ID token.'),
    expiresIn: Type.String({ description: 'Seconds, as text.', examples: ['3600'] }),
  },
  { title: 'CustomTokenExchanged' },
)

const refreshBody = Type.Unsafe<unknown>(
  shownAs(
    Type.Object(
      {
        grant_type: Type.String({ examples: ['refresh_token'] }),
        refresh_token: token('What signing in answered.'),
      },
      { title: 'TokenRefresh', description: 'As JSON, or as application/x-www-form-urlencoded.' },
    ),
  ),
)

const refreshed = Type.Object(
  {
    id_token: Type.String(),
    access_token: Type.String({ description: 'The same as id_token.' }),
    expires_in: Type.String({ description: 'Seconds, as text.' }),
    refresh_token: Type.String(),
    token_type: Type.String(),
    user_id: Type.String(),
    project_id: Type.String(),
  },
  { title: 'TokenRefreshed' },
)

/** They need what the sample of `/api/v1/auth/agent` exports. */
const samples = {
  exchange: curl('identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken', {
    token: '$CUSTOM_TOKEN',
    returnSecureToken: true,
  }),
  refresh: curl('securetoken.googleapis.com/v1/token', {
    grant_type: 'refresh_token',
    refresh_token: '$REFRESH_TOKEN',
  }),
}

const problems = ['identity_refused', 'relational_engine_unavailable'] as const

/** In a scope of its own: it takes forms, and its problem documents carry Google's `error`, too. */
export function registerIdentityToolkit(
  scope: FastifyInstance,
  main: Pick<MainApi, 'tokens' | 'people'> & { identity: LocalIssuer },
): void {
  const { identity } = main
  addGoogleErrors(scope)
  acceptForms(scope)
  limitedByAddress(scope, perAddress)
  refuseUnknownCalls(scope)
  const app = scope.withTypeProvider<TypeBoxTypeProvider>()
  app.post(
    '/identitytoolkit.googleapis.com/v1/accounts::signInWithCustomToken',
    {
      config: { problems, sample: samples.exchange },
      schema: {
        operationId: 'signInWithCustomToken',
        tags: ['identity provider'],
        summary: 'Trade a custom token for an ID token',
        body: exchangeBody,
        response: { 200: exchanged },
      },
    },
    async (request, reply) => {
      const customToken = textIn(request.body, 'token', 'MISSING_CUSTOM_TOKEN')
      const { idToken, refreshToken, expiresInS } = await identity.exchange(customToken)
      reply.header('cache-control', 'no-store')
      return {
        kind: 'identitytoolkit#VerifyCustomTokenResponse',
        isNewUser: false,
        idToken,
        refreshToken,
        expiresIn: String(expiresInS),
      }
    },
  )
  app.post(
    '/securetoken.googleapis.com/v1/token',
    {
      config: { problems, sample: samples.refresh },
      schema: {
        operationId: 'refreshIdToken',
        tags: ['identity provider'],
        summary: 'Trade a refresh token for an ID token',
        body: refreshBody,
        response: { 200: refreshed },
      },
    },
    async (request, reply) => {
      if (fieldsOf(request.body).grant_type !== 'refresh_token') {
        throw new AppError('identity_refused', 'INVALID_GRANT_TYPE')
      }
      const given = textIn(request.body, 'refresh_token', 'MISSING_REFRESH_TOKEN')
      const { uid, idToken, refreshToken, expiresInS } = await identity.refresh(given)
      reply.header('cache-control', 'no-store')
      return {
        id_token: idToken,
        access_token: idToken,
        expires_in: String(expiresInS),
        refresh_token: refreshToken,
        token_type: 'Bearer',
        user_id: uid,
        project_id: identity.projectId,
      }
    },
  )
  registerAccountLookup(scope, main)
  registerPasswordSignIn(scope, main)
}

/** Google's clients refresh with a form. */
function acceptForms(scope: FastifyInstance): void {
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: formBytesMax },
    (_request, text, done) => done(null, Object.fromEntries(new URLSearchParams(String(text)))),
  )
}

function addGoogleErrors(scope: FastifyInstance): void {
  scope.addHook('onSend', (_request, reply, payload, done) => {
    if (reply.statusCode < 400 || typeof payload !== 'string') return done(null, payload)
    const problem = JSON.parse(payload) as Problem
    done(null, JSON.stringify({ ...problem, error: errorOf(problem) }))
  })
}

function errorOf({ status, code, detail }: Problem) {
  const message = messageOf(code, detail)
  return { code: status, message, errors: [{ message, reason: 'invalid', domain: 'global' }] }
}

/** Google's words, where it has some for the code. */
const googles: Readonly<Record<string, string>> = {
  not_found: 'OPERATION_NOT_ALLOWED',
  method_not_allowed: 'OPERATION_NOT_ALLOWED',
}

/** Those of the provider itself are Google's already. */
function messageOf(code: string, detail: string): string {
  if (code === 'identity_refused') return detail
  if (code === 'rate_limited') return 'TOO_MANY_ATTEMPTS_TRY_LATER'
  return `${googles[code] ?? code.toUpperCase()} : ${detail}`
}
