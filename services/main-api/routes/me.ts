/**
 * /api/v1/me: who is calling, what they may do, and how a person replaces the own password, which ends the other
 * sessions.
 */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { serverMark } from '#runtime/http/api/facts.ts'
import { waitUntilPublished } from '#services/access/agents/agents.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import { limitsOf } from '#services/access/limits/limiter.ts'
import { firstAdminEmail } from '#services/access/people/first-admin.ts'
import { checkNewPassword, passwordLengthMax, passwordLengthMin } from '#services/access/people/passwords.ts'
import { changePassword, readPasswordOf } from '#services/access/people/people.ts'
import type { SignInTry } from '#services/access/people/sign-in.ts'
import { browserCookieOf } from '../browser.ts'
import type { MainApi } from '../main-api.ts'
import { permissionsOf } from '../rbac.ts'
import { closed, orNull, role } from '../schemas.ts'

const figure = (description: string) => orNull(Type.Integer(), description)

const me = Type.Object(
  {
    uid: Type.String(),
    kind: Type.Enum(['agent', 'person'], { type: 'string' }),
    slug: Type.String({ description: 'The agent id; of a person the uid.' }),
    name: Type.String(),
    email: Type.Optional(Type.String({ description: 'Of a person.' })),
    role,
    must_change_password: Type.Optional(
      Type.Boolean({ description: 'Of a person: nothing else is allowed before that.' }),
    ),
    permissions: Type.Array(Type.String({ examples: ['GET /api/v1/me'] }), {
      description: 'The routes that the caller may call.',
    }),
    limits: Type.Object({
      burst: figure('Requests that begin within any one second; null: unlimited.'),
      concurrent: figure('Requests at once; null: unlimited.'),
    }),
  },
  { title: 'Me' },
)

export function registerMe(scope: FastifyInstance): void {
  scope.withTypeProvider<TypeBoxTypeProvider>().get(
    '/me',
    {
      config: { problems: ['forbidden'] },
      schema: {
        operationId: 'getMe',
        tags: ['identity'],
        summary: 'Who is calling, and what they may do',
        response: { 200: me },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      const { rate, slots } = limitsOf(caller, false)
      const { uid, kind, agentId, name, email, access, mustChangePassword } = caller
      const data: Static<typeof me> = {
        uid,
        kind,
        slug: agentId,
        name,
        role: access,
        permissions: [...permissionsOf(caller)],
        limits: { burst: rate, concurrent: slots },
      }
      if (email !== undefined) data.email = email
      if (mustChangePassword !== undefined) data.must_change_password = mustChangePassword
      return data
    },
  )
}

const body = Type.Object(
  {
    current: Type.String({ minLength: 1, maxLength: 1_024 }),
    new: Type.String({
      maxLength: 1_024,
      description: `${passwordLengthMin} to ${passwordLengthMax} characters, at least 5 different ones, without the e-mail address.`,
    }),
  },
  { ...closed, title: 'PasswordChange' },
)

/** Whole, because the ID token of the other requests may be an agent's. */
const sample = `# As the first admin, whose one-time password is in the data directory.
password=$(cat .flotilla/admin-password)
answer=$(curl -sS "${serverMark}/api/v1/session" -H 'Content-Type: application/json' \\
  -d '{"email":"admin@localhost","password":"'"$password"'"}')
person_token=$(echo "$answer" | sed 's/.*"idToken":"\\([^"]*\\)".*/\\1/')
curl -sS -X PUT "${serverMark}/api/v1/me/password" -H "Authorization: Bearer $person_token" \\
  -H 'Content-Type: application/json' -d '{"current":"'"$password"'","new":"a password of my own"}'`

const changed = Type.Object({ changed: Type.Literal(true) }, { title: 'PasswordChanged' })

export function registerMyPassword(scope: FastifyInstance, main: MainApi): void {
  const { relational } = main.context.engines
  const { people } = main
  scope.withTypeProvider<TypeBoxTypeProvider>().put(
    '/me/password',
    {
      config: {
        problems: ['forbidden', 'conflict', 'rate_limited', 'overloaded', 'log_unavailable'],
        sample,
      },
      schema: {
        operationId: 'changeMyPassword',
        tags: ['people'],
        summary: 'Replace the own password; all other sessions end',
        body,
        response: { 200: changed },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      const email = emailOf(caller)
      const { current, new: fresh } = request.body
      checkNewPassword(fresh, email, '/new')
      // A session is one that signed in before, as a browser is.
      const browser = people.browsers.idOf(browserCookieOf(request), email) ?? caller.sessionId
      const tried = { email, password: current, address: request.ip, requestId: request.id, browser }
      const before = await confirm(caller.uid, tried)
      if (current === fresh) throw new AppError('conflict', 'The new password is the present one.')
      const after = await people.passwords.hash(fresh, caller.uid)
      const by = { actor: { kind: 'person' as const, id: caller.uid }, requestId: request.id }
      const change = { before, after, keptSession: caller.sessionId ?? null }
      const { outboxId } = await changePassword(relational, caller.uid, change, by)
      if (email === firstAdminEmail) await people.firstAdmin?.tidy()
      await waitUntilPublished(relational, outboxId)
      return { changed: true as const }
    },
  )

  /** The stored hash of a password that is right. Wrong ones count as wrong sign-ins do. */
  async function confirm(uid: string, tried: SignInTry): Promise<string> {
    const { email, password, address, requestId, browser } = tried
    const stored = (await readPasswordOf(relational, email))?.password ?? null
    if (stored === null) {
      throw new AppError('conflict', 'This person has no password here: it is changed where they sign in.')
    }
    const admitted = people.limits.admit(email, address, browser)
    const { matches } = await people.passwords.verify(password, stored, admitted.turn).catch((error) => {
      admitted.takeBack()
      throw error
    })
    if (!matches) {
      people.refusals.note({ uid, address, requestId, reason: 'forbidden' })
      throw new AppError('forbidden', 'The current password is not right.')
    }
    admitted.right()
    return stored
  }
}

function emailOf({ kind, email }: Caller): string {
  if (kind === 'person' && email !== undefined) return email
  throw new AppError('forbidden', 'Only people have passwords.')
}
