/** The audit of changes that their caller's role does not allow: one line a minute for a caller and route, with a count. */

import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { type Actor, type AdminAction, writeAdminAction } from '#services/access/admin-audit/admin-audit.ts'

const perMs = 60_000
/** Beyond this many callers and routes a minute, further ones are not noted. */
const openMax = 1_000

interface RefusedChange {
  actor: Actor
  /** Method and path of the route. */
  route: string
  requestId: string
}

export interface RefusedChanges extends Closeable {
  note(refused: RefusedChange): void
}

interface Open extends RefusedChange {
  /** Since the last line. */
  count: number
}

/** The first is written at once; further ones within a minute are one line at its end, or at the close. */
export function openRefusedChanges(
  { relational, log }: { relational: Relational; log: Logger },
  everyMs = perMs,
): RefusedChanges {
  const open = new Map<string, Open>()
  let looking: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  function write(one: Open): void {
    const action = actionOf(one)
    one.count = 0
    writing = writing
      .then(() => relational.transaction((tx) => writeAdminAction(tx, action)))
      .then(
        () => {},
        (error: unknown) => log.warn({ reason: describeError(error) }, 'admin-audit.not-written'),
      )
  }
  function look(): void {
    for (const [key, one] of open) {
      if (one.count > 0) write(one)
      else open.delete(key)
    }
    // Nothing runs while nobody is refused.
    if (open.size > 0) return
    clearInterval(looking)
    looking = undefined
  }

  return {
    note(refused) {
      const key = `${refused.actor.id} ${refused.route}`
      const known = open.get(key)
      if (known) {
        known.count += 1
        return
      }
      if (open.size >= openMax) return
      const first = { ...refused, count: 1 }
      open.set(key, first)
      write(first)
      looking ??= setInterval(look, everyMs).unref()
    },
    async close() {
      clearInterval(looking)
      for (const one of open.values()) if (one.count > 0) write(one)
      open.clear()
      await writing
    },
  }
}

function actionOf({ actor, route, requestId, count }: Open): AdminAction {
  return {
    actor,
    action: 'request.refuse',
    target: route,
    requestId,
    outcome: 'refused',
    reason: 'forbidden',
    count,
  }
}

/** Behind the check of roles: notes what it refuses, reading aside. */
export function noteRefused(scope: FastifyInstance, refusals: RefusedChanges): void {
  scope.addHook('onResponse', (request, _reply, done) => {
    const { caller, problemCode, method } = request
    if (caller && problemCode === 'forbidden' && method !== 'GET' && method !== 'HEAD') {
      refusals.note({
        actor: { kind: caller.kind, id: caller.uid },
        route: `${method} ${request.routeOptions.url ?? ''}`,
        requestId: request.id,
      })
    }
    done()
  })
}
