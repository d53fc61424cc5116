/** accounts:lookup of the local issuer: the account behind an ID token. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { LocalIssuer } from '#engines/identity/port.ts'
import { AppError } from '#lib/errors.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import type { MainApi } from '../../main-api.ts'
import { curl } from './curl.ts'
import { textIn } from './fields.ts'

const body = Type.Unsafe<unknown>(
  shownAs(Type.Object({ idToken: Type.String() }, { title: 'AccountLookup' })),
)

const account = Type.Object(
  {
    localId: Type.String(),
    displayName: Type.Optional(Type.String()),
    email: Type.Optional(Type.String()),
    emailVerified: Type.Optional(Type.Boolean()),
    providerUserInfo: Type.Array(Type.Object({}, { additionalProperties: true })),
    disabled: Type.Boolean(),
    customAuth: Type.Boolean(),
    lastLoginAt: Type.String({ description: 'Milliseconds since 1970, as text.' }),
    createdAt: Type.String({ description: 'Milliseconds since 1970, as text.' }),
    lastRefreshAt: Type.String({ format: 'date-time' }),
  },
  { title: 'Account' },
)

const answer = Type.Object({ kind: Type.String(), users: Type.Array(account) }, { title: 'AccountsFound' })

export function registerAccountLookup(
  scope: FastifyInstance,
  { tokens, identity }: Pick<MainApi, 'tokens'> & { identity: LocalIssuer },
): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/identitytoolkit.googleapis.com/v1/accounts::lookup',
    {
      config: {
        problems: ['identity_refused', 'rate_limited', 'relational_engine_unavailable'],
        sample: curl('identitytoolkit.googleapis.com/v1/accounts:lookup', { idToken: '$ID_TOKEN' }),
      },
      schema: {
        operationId: 'lookUpAccount',
        tags: ['identity provider'],
        summary: 'The account behind an ID token',
        body,
        response: { 200: answer },
      },
    },
    async (request, reply) => {
      const idToken = textIn(request.body, 'idToken', 'MISSING_ID_TOKEN')
      const [{ authTime, issuedAt }, caller] = await refusedAsGoogle(async () => [
        await identity.verifyIdToken(idToken),
        await tokens.authenticate(`Bearer ${idToken}`),
      ])
      reply.header('cache-control', 'no-store')
      const { uid, name, email } = caller
      return {
        kind: 'identitytoolkit#GetAccountInfoResponse',
        users: [
          {
            localId: uid,
            displayName: name,
            ...(email === undefined ? {} : { email, emailVerified: false }),
            providerUserInfo: [],
            disabled: false,
            customAuth: true,
            lastLoginAt: String(authTime),
            createdAt: String(authTime),
            lastRefreshAt: new Date(issuedAt).toISOString(),
          },
        ],
      }
    },
  )
}

async function refusedAsGoogle<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof AppError) || error.statusCode !== 401) throw error
    throw new AppError(
      'identity_refused',
      error.code === 'token_expired' ? 'TOKEN_EXPIRED' : 'INVALID_ID_TOKEN',
    )
  }
}
