/** Who a caller is to notes and goals. */

import type { FastifyInstance } from 'fastify'
import { AppError } from '#lib/errors.ts'
import type { Author } from '#services/goals/records/kind.ts'
import { type Caller, callerOf } from '#services/identity/access/caller.ts'

export function authorOf({ agentId, uid, access }: Caller): Author {
  return { name: agentId, uid, isAdmin: access === 'admin' }
}

/** Behind the credential: whoever signed in with a first password may do nothing but change it. */
export function refuseFirstPasswords(scope: FastifyInstance): void {
  scope.addHook('onRequest', (request, _reply, done) => {
    if (!callerOf(request).mustChangePassword) return done()
    done(
      new AppError(
        'password_change_required',
        'Change the password first, at the main API: PUT /api/v1/me/password.',
      ),
    )
  })
}
