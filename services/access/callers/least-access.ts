/** Refuses callers whose access is too low for a route. */

import type { onRequestHookHandler } from 'fastify'
import { AppError } from '#lib/errors.ts'
import { type Access, accessLevels } from '../agents/agents.ts'
import { callerOf } from './caller.ts'

/**
 * An `onRequest` hook for routes behind `requireGatewayKey`: callers with less access than `least` are answered 403 `forbidden`
 * before their body is read.
 */
export function leastAccess(least: Exclude<Access, 'viewer'>): onRequestHookHandler {
  // From the highest to the lowest.
  const allowed = accessLevels.slice(0, accessLevels.indexOf(least) + 1)
  return (request, _reply, done) => {
    if (allowed.includes(callerOf(request).access)) return done()
    done(new AppError('forbidden', `This needs an agent with access ${allowed.join(' or ')}.`))
  }
}
