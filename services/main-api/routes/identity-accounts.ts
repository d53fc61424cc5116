/** accounts:lookup and accounts:signInWithPassword of the local issuer, and how bodies of its calls are read. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { LocalIssuer } from '#engines/identity/port.ts'
import { AppError } from '#lib/errors.ts'
import { serverMark, shownAs } from '#runtime/http/api/facts.ts'
import type { People } from '#services/access/people/open-people.ts'
import type { SignedIn, SignInTry } from '#services/access/people/sign-in.ts'
import type { MainApi } from '../main-api.ts'

export function fieldsOf(body: unknown): Record<string, unknown> {
  return typeof body === 'object' && body !== null && !Array.isArray(body)
    ? (body as Record<string, unknown>)
    : {}
}

/** Throws AppError `identity_refused` with Google's string for a field that is missing, empty or no text. */
export function textIn(body: unknown, name: string, missing: string): string {
  const fields = fieldsOf(body)
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (typeof value === 'string' && value !== '') return value
  throw new AppError('identity_refused', missing)
}

/** Texts of `body` that begin with `$` are variables of the shell. */
export function curl(path: string, body: Record<string, string | boolean>): string {
  const json = JSON.stringify(body).replace(/"(\$[A-Z_]+)"/g, (_all, name: string) => `"'"${name}"'"`)
  return `curl -sS "${serverMark}/${path}?key=any" \\\n  -H 'Content-Type: application/json' \\\n  -d '${json}'`
}

const lookupBody = Type.Unsafe<unknown>(
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
        body: lookupBody,
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

const signInBody = Type.Unsafe<unknown>(
  shownAs(
    Type.Object(
      {
        email: Type.String(),
        password: Type.String(),
        returnSecureToken: Type.Optional(Type.Boolean({ examples: [true] })),
      },
      { title: 'PasswordSignIn' },
    ),
  ),
)

const signedIn = Type.Object(
  {
    kind: Type.String(),
    localId: Type.String(),
    email: Type.String(),
    displayName: Type.String(),
    idToken: Type.String({ description: 'The Bearer credential of /api/v1.' }),
    registered: Type.Boolean(),
    refreshToken: Type.String({ description: 'Buys the next ID token.' }),
    expiresIn: Type.String({ description: 'Seconds, as text.', examples: ['3600'] }),
  },
  { title: 'PasswordSignedIn' },
)

const sample = `# The first admin's one-time password is in the data directory.
curl -sS "${serverMark}/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=any" \\
  -H 'Content-Type: application/json' \\
  -d '{"email":"admin@localhost","password":"'"$(cat .flotilla/admin-password)"'","returnSecureToken":true}'`

/** As for the session paths: more can be no password of ours. */
const lengthMax = 1_024

export function registerPasswordSignIn(
  scope: FastifyInstance,
  { identity, people }: { identity: LocalIssuer; people: Pick<People, 'signIn' | 'sessions'> },
): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/identitytoolkit.googleapis.com/v1/accounts::signInWithPassword',
    {
      config: {
        problems: ['identity_refused', 'rate_limited', 'overloaded', 'relational_engine_unavailable'],
        sample,
      },
      schema: {
        operationId: 'signInWithPassword',
        tags: ['identity provider'],
        summary: 'Sign a person in with e-mail and password',
        description:
          'A wrong password and an unknown e-mail are the same INVALID_LOGIN_CREDENTIALS. The refresh token ends after twelve idle ' +
          'hours, after seven days, and with a change of the password.',
        body: signInBody,
        response: { 200: signedIn },
      },
    },
    async (request, reply) => {
      const email = textIn(request.body, 'email', 'INVALID_EMAIL')
      const password = textIn(request.body, 'password', 'MISSING_PASSWORD')
      const { person } = await signIn({ email, password, address: request.ip, requestId: request.id })
      const session = await people.sessions.begin({
        person,
        by: 'password',
        browser: false,
        requestId: request.id,
      })
      const { idToken, refreshToken, expiresInS } = await identity.signIn(person.uid, { session: session.id })
      reply.header('cache-control', 'no-store')
      return {
        kind: 'identitytoolkit#VerifyPasswordResponse',
        localId: person.uid,
        email: person.email,
        displayName: person.name,
        idToken,
        registered: true,
        refreshToken,
        expiresIn: String(expiresInS),
      }
    },
  )

  async function signIn(given: SignInTry): Promise<SignedIn> {
    const { email, password } = given
    if (!people.signIn || email.length > lengthMax || password.length > lengthMax) throw wrong()
    try {
      return await people.signIn(given)
    } catch (error) {
      throw error instanceof AppError && error.statusCode === 401 ? wrong() : error
    }
  }
}

function wrong(): AppError {
  return new AppError('identity_refused', 'INVALID_LOGIN_CREDENTIALS')
}
