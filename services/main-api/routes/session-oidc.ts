/**
 * GET /api/v1/session/oidc/start and /callback: sign-in at an OpenID Connect provider. Browsers go there, no client calls
 * them: so they are not in the API description.
 */

import type { FastifyInstance } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { issueCode, startTtlS } from '#services/access/oidc/oidc.ts'
import { personOfAccount } from '#services/access/people/people.ts'
import { cookieOptions, cookiePath, returnOriginOf, startCookie } from '../browser.ts'
import type { MainApi } from '../main-api.ts'

const callbackPath = `${cookiePath}/oidc/callback`
/** The fragment never reaches a server, and the page takes it away at once. */
const consolePage = '/console/#code='

/**
 * The callback is for people whom an admin added by subject, or whose verified e-mail is that of a person; 403 for all
 * others, and for a browser that did not begin here within ten minutes.
 */
export function registerSessionOidc(scope: FastifyInstance, main: MainApi): void {
  const returnOrigin = returnOriginOf(main.context.config.MAIN_API_URL)
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
      const origin = returnOrigin(request)
      const { url, begun } = await provider.start(origin + callbackPath)
      reply.setCookie(startCookie, cookies.seal(begun), cookieOptions(origin, 'lax', startTtlS))
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
      const { account, verifiedEmail, saysVerifiedAsText } = await provider.finish(begun, search)
      const { relational } = main.context.engines
      const person = await personOfAccount(relational, account, verifiedEmail, request.id).catch((error) => {
        throw saysVerifiedAsText && isRefusal(error) ? verifiedAsText() : error
      })
      const code = await issueCode(relational, person.uid, begun.state)
      return reply
        .header('cache-control', 'no-store')
        .header('referrer-policy', 'no-referrer')
        .redirect(consolePage + code, 302)
    },
  )
}

function isRefusal(error: unknown): boolean {
  return error instanceof AppError && error.code === 'forbidden'
}

function verifiedAsText(): AppError {
  return new AppError(
    'forbidden',
    'The provider says email_verified as the text "true", which does not count: it must be the JSON value true. ' +
      'Correct its claims, or ask an admin to add you by your subject there.',
  )
}
