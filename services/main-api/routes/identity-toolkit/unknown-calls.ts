/** Calls of Google's hosts that the local issuer does not have: its clients take a 404 of another form for no answer at all. */

import type { FastifyInstance } from 'fastify'
import { AppError } from '#lib/errors.ts'

const hosts = ['/identitytoolkit.googleapis.com', '/securetoken.googleapis.com']

/** In `scope` and with its hooks, which add Google's form. Routes that are added later are known. */
export function refuseUnknownCalls(scope: FastifyInstance): void {
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
