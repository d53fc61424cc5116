/**
 * GET /api/v1/session/oidc/start and /callback: sign-in at an OpenID Connect provider. Browsers go there, no client calls
 * them: so they are not in the API description.
 */

import type { FastifyInstance } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { issueCode } from '#services/identity/oidc/sign-in-codes.ts'
import { startTtlS } from '#services/identity/oidc/start-cookie.ts'
import { personOfAccount } from '#services/identity/people/provider-accounts.ts'
import { cookieOptions, cookiePath, type OwnOrigin, startCookie } from '../browser.ts'
import type { MainApi } from '../main-api.ts'

const callbackPath = `${cookiePath}/oidc/callback`
/** The fragment never reaches a server, and the page takes it away at once. */
const consolePage = '/console/#code='

/**
 * The callback is for people whom an admin added by subject, or whose verified e-mail is that of a person; 403 for all
 * others, and for a browser that did not begin here within ten minutes.
 */
export function registerSessionOidc(scope: FastifyInstance, main: MainApi, ownOrigin: OwnOrigin): void {
  const partsOf = () => {
    if (main.people.oidc) return main.people.oidc
    throw new AppError('not_found', 'There is no OpenID Connect provider here: OIDC_ISSUER is not set.')
  }
  scope.get(
    '/session/oidc/start',
    {
      schema: { hide: true },
    },
    async (request, reply) => {
      const { provider, cookies } = partsOf()
      const { url, begun } = await provider.start(ownOrigin(request) + callbackPath)
      reply.setCookie(startCookie, cookies.seal(begun), cookieOptions(ownOrigin(request), 'lax', startTtlS))
      return reply.header('cache-control', 'no-store').redirect(url, 302)
    },
  )
  scope.get(
    '/session/oidc/callback',
    {
      schema: { hide: true },
    },
    async (request, reply) => {
      const { provider, cookies } = partsOf()
      const begun = cookies.open(request.cookies[startCookie])
      if (!begun) {
        throw new AppError('forbidden', 'This browser did not begin a sign-in here in the last ten minutes.')
      }
      const query = request.url.indexOf('?')
      const search = query < 0 ? '' : request.url.slice(query)
      const { account, verifiedEmail } = await provider.finish(begun, search)
      const { relational } = main.context.engines
      const person = await personOfAccount(relational, account, verifiedEmail, request.id)
      const code = await issueCode(relational, person.uid, begun.state)
      return reply
        .header('cache-control', 'no-store')
        .header('referrer-policy', 'no-referrer')
        .redirect(consolePage + code, 302)
    },
  )
}
