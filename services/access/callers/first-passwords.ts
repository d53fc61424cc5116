/** Keeps people who signed in with a first password from everything but changing it. */

import type { FastifyInstance } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { callerOf } from './caller.ts'

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
