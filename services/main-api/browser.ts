/** What the session paths know of browsers: which page asks, and which cookies they keep. */

import type { CookieSerializeOptions } from '@fastify/cookie'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { describeScope } from '#runtime/http/api/facts.ts'
import type { People } from '#services/access/people/open-people.ts'
import { knownBrowserTtlS } from '#services/access/people/sign-in-limits.ts'

/** Both go to these paths alone, so that no other route has a second credential. */
export const cookiePath = '/api/v1/session'
/** Can do nothing but buy ID tokens, and only with the half that the page keeps. */
export const sessionCookie = 'flotilla_session'
/** Binds a sign-in at the OpenID Connect provider to the browser that began it. */
export const startCookie = 'flotilla_oidc'

/** Gives a browser that signed in before tries of its own: see sign-in-limits.ts. No credential. */
const browserCookie = 'flotilla_browser'
/** Where passwords are tried. */
const browserCookiePath = '/api/v1'

/** Scheme, host and port under which the browser that asks knows this interface. */
export type OwnOrigin = (request: Pick<FastifyRequest, 'protocol' | 'host'>) => string

/**
 * A proxy that ends TLS may not say so, or not be trusted: at the host of the public address (MAIN_API_URL) its scheme
 * counts.
 */
export function ownOriginOf(publicUrl: string | undefined): OwnOrigin {
  const known = publicUrl === undefined ? null : new URL(publicUrl)
  return ({ protocol, host }) => (host === known?.host ? known.origin : `${protocol}://${host}`)
}

/**
 * Where the OpenID Connect provider sends browsers back to: the public address alone where it is known, because a caller
 * chooses its Host.
 */
export function returnOriginOf(publicUrl: string | undefined): OwnOrigin {
  if (publicUrl === undefined) return ownOriginOf(undefined)
  const { origin } = new URL(publicUrl)
  return () => origin
}

/** `origin` is that of the interface. */
export function cookieOptions(
  origin: string,
  sameSite: 'strict' | 'lax',
  maxAge: number,
): CookieSerializeOptions {
  return { path: cookiePath, httpOnly: true, sameSite, secure: origin.startsWith('https:'), maxAge }
}

/** Marks the browser of a sign-in that was right. */
export function markBrowser(
  { browsers }: Pick<People, 'browsers'>,
  request: FastifyRequest,
  { email, origin }: { email: string; origin: string },
): [name: string, value: string, options: CookieSerializeOptions] {
  const options = { ...cookieOptions(origin, 'lax', knownBrowserTtlS), path: browserCookiePath }
  return [browserCookie, browsers.cookieFor(email, browserCookieOf(request)), options]
}

/** Also where no plugin has parsed the cookies; its value needs no decoding. */
export function browserCookieOf({ headers }: Pick<FastifyRequest, 'headers'>): string | undefined {
  return /(?:^|;) *flotilla_browser=([\w-]+)/.exec(headers.cookie ?? '')?.[1]
}

/**
 * Refuses what a page of another origin asks, before anything is read. Cookies know no ports: another server of this host
 * gets them, too, but its pages have another Origin. Who sends neither header is no browser, and has no cookies but its own.
 */
export function sameOriginOnly(scope: FastifyInstance, ownOrigin: OwnOrigin): void {
  describeScope(scope, { problems: ['forbidden'] })
  scope.addHook('onRequest', (request, _reply, done) => {
    const { origin, 'sec-fetch-site': site } = request.headers
    const isForeign =
      (site !== undefined && site !== 'same-origin') ||
      (origin !== undefined && origin !== ownOrigin(request))
    done(
      isForeign
        ? new AppError('forbidden', 'Only pages of this origin may sign in, buy tokens and sign out.')
        : undefined,
    )
  })
}
