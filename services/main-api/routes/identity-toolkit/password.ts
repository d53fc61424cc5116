/** accounts:signInWithPassword of the local issuer: people sign in without a browser's session. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { LocalIssuer } from '#engines/identity/port.ts'
import { AppError } from '#lib/errors.ts'
import { serverMark, shownAs } from '#runtime/http/api/facts.ts'
import type { People } from '#services/access/people/open-people.ts'
import type { SignedIn, SignInTry } from '#services/access/people/sign-in.ts'
import { textIn } from './fields.ts'

const body = Type.Unsafe<unknown>(
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

export interface PasswordSignInParts {
  identity: LocalIssuer
  people: Pick<People, 'signIn' | 'sessions'>
}

export function registerPasswordSignIn(
  scope: FastifyInstance,
  { identity, people }: PasswordSignInParts,
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
        body,
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
