/** GET, POST and DELETE /api/v1/session, POST /api/v1/session/token: how people sign in with a browser. */

import cookies from '@fastify/cookie'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import { limitedByAddress } from '#runtime/http/strangers.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import { tradeCode } from '#services/access/oidc/oidc.ts'
import { showPerson } from '#services/access/people/people.ts'
import type { Person } from '#services/access/people/rows.ts'
import { buyIdToken, type HeldSession, sessionAgeS } from '#services/access/sessions/sessions.ts'
import {
  browserCookieOf,
  cookieOptions,
  cookiePath,
  markBrowser,
  type OwnOrigin,
  ownOriginOf,
  sameOriginOnly,
  sessionCookie,
  startCookie,
} from '../browser.ts'
import type { MainApi } from '../main-api.ts'
import { closed, role } from '../schemas.ts'
import { registerSessionOidc } from './session-oidc.ts'

const body = Type.Object(
  {
    email: Type.Optional(Type.String({ minLength: 1, maxLength: 320, examples: ['admin@localhost'] })),
    password: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 })),
    code: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'In place of e-mail and password: what the OpenID Connect callback put behind `#code=`.',
      }),
    ),
  },
  { ...closed, title: 'SignIn' },
)

const idToken = {
  idToken: Type.String({
    description: 'The Bearer credential of the other routes. Keep it in memory alone.',
  }),
  expiresIn: Type.Integer({ description: 'Seconds.' }),
  sessionEndsAt: Type.String({ format: 'date-time', description: 'If it is not used before.' }),
  person: Type.Object({
    uid: Type.String(),
    email: Type.String(),
    name: Type.String(),
    role,
    mustChangePassword: Type.Boolean({
      description: 'True: nothing but `PUT /api/v1/me/password` is allowed.',
    }),
  }),
}

const signedIn = Type.Object(
  {
    ...idToken,
    half: Type.String({
      description: 'Buys the next ID tokens, together with the cookie. Keep it in localStorage.',
    }),
  },
  { title: 'SignedIn' },
)
const bought = Type.Object(idToken, { title: 'BoughtToken' })
const signedOut = Type.Object(
  { ended: Type.Boolean({ description: 'False when there was no session.' }) },
  { title: 'SignedOut' },
)

const waysIn = Type.Object(
  {
    password: Type.Boolean({ description: 'With e-mail and password.' }),
    oidc: Type.Boolean({
      description: 'At the OpenID Connect provider, from `/api/v1/session/oidc/start` on.',
    }),
  },
  { title: 'WaysIn' },
)

const halfHeader = Type.Object({
  'x-session-half': Type.Optional(Type.String({ description: 'The half that the sign-in answered.' })),
})

const jar = 'flotilla-session.txt'
const samples = {
  signIn: `# The first admin's one-time password is in the data directory.
answer=$(curl -sS -c ${jar} "${serverMark}/api/v1/session" -H 'Content-Type: application/json' \\
  -d '{"email":"admin@localhost","password":"'"$(cat .flotilla/admin-password)"'"}')
echo "$answer"
export SESSION_HALF=$(echo "$answer" | sed 's/.*"half":"\\([^"]*\\)".*/\\1/')`,
  buy: `curl -sS -b ${jar} -X POST "${serverMark}/api/v1/session/token" -H "X-Session-Half: $SESSION_HALF"`,
  signOut: `curl -sS -b ${jar} -X DELETE "${serverMark}/api/v1/session"`,
}

/** Rates of one address; wrong passwords have limits of their own. */
const rates = [
  { count: 100, windowMs: 1_000 },
  { count: 1_000, windowMs: 60_000 },
]

const unavailable = ['overloaded', 'identity_unavailable', 'relational_engine_unavailable'] as const

/** Below /api/v1, open: who has no ID token yet comes here. */
export async function registerSession(app: FastifyInstance, main: MainApi): Promise<void> {
  await app.register(cookies)
  // A flood of its address does not keep out a browser that signed in before.
  limitedByAddress(app, rates, (request) => main.people.browsers.anyIdOf(browserCookieOf(request)))
  const ownOrigin = ownOriginOf(main.context.config.MAIN_API_URL)
  registerSessionOidc(app, main)
  registerWaysIn(app, main)
  await app.register(async (scope) => {
    sameOriginOnly(scope, ownOrigin)
    registerSignIn(scope, main, ownOrigin)
    registerBuy(scope, main)
    registerSignOut(scope, main)
  })
}

function registerWaysIn(scope: FastifyInstance, { people }: MainApi): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/session',
    {
      config: { problems: [] },
      schema: {
        operationId: 'listWaysIn',
        tags: ['people'],
        summary: 'How people sign in here',
        response: { 200: waysIn },
      },
    },
    async () => ({ password: people.signIn !== null, oidc: people.oidc !== null }),
  )
}

function registerSignIn(scope: FastifyInstance, main: MainApi, ownOrigin: OwnOrigin): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/session',
    {
      config: { problems: ['unauthorized', 'not_found', ...unavailable], sample: samples.signIn },
      schema: {
        operationId: 'signIn',
        tags: ['people'],
        summary: 'Sign in with e-mail and password, or with the code of an OpenID Connect sign-in',
        description:
          'Wrong passwords make their address wait, for a minute at most, and after many from many addresses the account for ' +
          'seconds. An account at an address where it signed in before, and a browser that did (cookie `flotilla_browser`), have ' +
          'tries of their own. A wrong password and an unknown e-mail get the same answer after the same time.',
        body,
        response: { 200: signedIn },
      },
    },
    async (request, reply) => {
      const { people } = main
      const { person, by, providerToken } = await (request.body.code === undefined
        ? withPassword(main, request)
        : withCode(main, request, reply))
      const session = await people.sessions.begin({
        person,
        by,
        browser: true,
        requestId: request.id,
        ...(providerToken === undefined
          ? {}
          : { providerToken: (id: string) => people.providerTokens.seal(id, providerToken) }),
      })
      const held: HeldSession = {
        id: session.id,
        personUid: person.uid,
        email: person.email,
        name: person.name,
        role: person.role,
        mustChangePassword: person.must_change_password,
        providerToken: null,
        endsAt: session.endsAt,
      }
      const data = { ...(await tokenOf(main, held)), half: session.half }
      const origin = ownOrigin(request)
      reply.setCookie(sessionCookie, session.cookie, cookieOptions(origin, 'strict', sessionAgeS))
      if (by === 'password') reply.setCookie(...markBrowser(people, request, { email: person.email, origin }))
      reply.header('cache-control', 'no-store')
      return data
    },
  )
}

interface Proven {
  person: Person
  by: 'password' | 'oidc'
  providerToken?: string
}

async function withPassword({ people }: MainApi, request: FastifyRequest): Promise<Proven> {
  const { email, password } = request.body as Static<typeof body>
  const missing = Object.entries({ email, password }).filter(([, value]) => value === undefined)
  if (email === undefined || password === undefined) {
    throw validationFailed(missing.map(([name]) => ({ path: `/${name}`, message: 'is required' })))
  }
  if (!people.signIn) {
    throw new AppError('not_found', 'Nobody signs in with a password here: FIREBASE_WEB_API_KEY is not set.')
  }
  const browser = people.browsers.idOf(browserCookieOf(request), email)
  const tried = { email, password, address: request.ip, requestId: request.id, browser }
  const { person, providerToken } = await people.signIn(tried)
  return { person, by: 'password', ...(providerToken === undefined ? {} : { providerToken }) }
}

/** Only the browser that began at the provider can trade what it came back with. */
async function withCode(main: MainApi, request: FastifyRequest, reply: FastifyReply): Promise<Proven> {
  const { email, password, code = '' } = request.body as Static<typeof body>
  if (email !== undefined || password !== undefined) {
    throw validationFailed([{ path: '/code', message: 'comes without e-mail and password' }])
  }
  const begun = main.people.oidc?.cookies.open(request.cookies[startCookie])
  const { relational } = main.context.engines
  const personUid = begun && (await tradeCode(relational, code, begun.state))
  if (!personUid) {
    throw new AppError(
      'unauthorized',
      'The code was used, is too old, or is of another browser: begin again.',
    )
  }
  reply.clearCookie(startCookie, { path: cookiePath })
  return { person: await showPerson(relational, personUid), by: 'oidc' }
}

function registerBuy(scope: FastifyInstance, main: MainApi): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/session/token',
    {
      config: { problems: ['unauthorized', ...unavailable], sample: samples.buy },
      schema: {
        operationId: 'buyIdToken',
        tags: ['people'],
        summary: 'Buy an ID token with the cookie and the half of a session',
        headers: halfHeader,
        response: { 200: bought },
      },
    },
    async (request, reply) => {
      const held = await main.people.sessions.use(
        request.cookies[sessionCookie],
        request.headers['x-session-half'],
      )
      reply.header('cache-control', 'no-store')
      return await tokenOf(main, held)
    },
  )
}

function registerSignOut(scope: FastifyInstance, main: MainApi): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().delete(
    '/session',
    {
      config: { problems: ['relational_engine_unavailable'], sample: samples.signOut },
      schema: {
        operationId: 'signOut',
        tags: ['people'],
        summary: 'End the session of the cookie; its ID tokens end within a second',
        response: { 200: signedOut },
      },
    },
    async (request, reply) => {
      const ended = await main.people.sessions.end(request.cookies[sessionCookie], request.id)
      reply.clearCookie(sessionCookie, { path: cookiePath })
      return { ended }
    },
  )
}

async function tokenOf({ identity, people }: MainApi, held: HeldSession) {
  const { idToken, expiresInS } = await buyIdToken({ identity, ...people }, held)
  return {
    idToken,
    expiresIn: expiresInS,
    sessionEndsAt: held.endsAt.toISOString(),
    person: {
      uid: held.personUid,
      email: held.email,
      name: held.name,
      role: held.role,
      mustChangePassword: held.mustChangePassword,
    },
  }
}
