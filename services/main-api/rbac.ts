/** Who may do what at the main API: one table, route by route. A route that is missing from it stops the start. */

import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { AppError } from '#lib/errors.ts'
import type { Action } from '#operations/action.ts'
import { actions } from '#operations/list.ts'
import { type Access, accessLevels } from '#services/access/agents/agents.ts'
import { type Caller, callerOf } from '#services/access/callers/caller.ts'
import type { Refusals } from '#services/access/people/refused-sign-ins.ts'

/** The least role of a route; `open` needs no token. */
export type Least = Access | 'open'

/** Method and path as the route is registered → least role. A viewer reads, a member makes, an admin manages. */
export const rbac: Readonly<Record<string, Least>> = {
  'POST /api/v1/auth/agent': 'open',
  'GET /api/v1/me': 'viewer',
  'PUT /api/v1/me/password': 'viewer',

  'GET /api/v1/session': 'open',
  'POST /api/v1/session': 'open',
  'POST /api/v1/session/token': 'open',
  'DELETE /api/v1/session': 'open',
  'GET /api/v1/session/oidc/start': 'open',
  'GET /api/v1/session/oidc/callback': 'open',

  'GET /api/v1/brain/state': 'viewer',
  ...rolesOf(actions),
  'GET /api/v1/fleet_notes': 'viewer',
  'POST /api/v1/fleet_notes': 'member',
  'GET /api/v1/fleet_notes/:id': 'viewer',
  'PATCH /api/v1/fleet_notes/:id': 'member',
  'GET /api/v1/fleet_notes/:id/thread': 'viewer',
  'GET /api/v1/fleet_notes/events': 'viewer',
  'GET /api/v1/goals': 'viewer',
  'POST /api/v1/goals': 'member',
  'GET /api/v1/goals/:id': 'viewer',
  'PATCH /api/v1/goals/:id': 'member',
  'GET /api/v1/goals/events': 'viewer',
  'GET /api/v1/runs': 'viewer',
  'POST /api/v1/runs': 'member',
  'GET /api/v1/runs/:runId': 'viewer',
  'GET /api/v1/runs/:runId/events': 'viewer',
  'POST /api/v1/runs/:runId/cancel': 'member',
  'POST /api/v1/runs/:runId/input': 'member',
  'GET /api/v1/sessions': 'viewer',
  'GET /api/v1/sessions/:sessionId/events': 'viewer',
  'DELETE /api/v1/sessions/:sessionId': 'member',
  'GET /api/v1/schedules': 'viewer',
  'POST /api/v1/schedules': 'member',
  'GET /api/v1/schedules/:id': 'viewer',
  'GET /api/v1/schedules/:id/runs': 'viewer',
  'PATCH /api/v1/schedules/:id': 'member',
  'DELETE /api/v1/schedules/:id': 'member',
  'GET /api/v1/dispatches': 'viewer',
  'POST /api/v1/dispatches': 'member',
  'GET /api/v1/dispatches/:goalId': 'viewer',
  'GET /api/v1/dispatches/:goalId/events': 'viewer',
  'POST /api/v1/dispatches/:goalId/cancel': 'member',
  // Most topics are for admins alone: the route decides.
  'GET /api/v1/log/topics/:topic/records': 'viewer',
  'GET /api/v1/log/topics/:topic/tail': 'admin',
  'GET /api/v1/log/groups': 'viewer',
  'GET /api/v1/log/groups/:group': 'viewer',
  'GET /api/v1/log/groups/:group/lag': 'viewer',
  'GET /api/v1/log/lag': 'viewer',
  'GET /api/v1/webhooks/targets/:name': 'viewer',
  'GET /api/v1/webhooks/attempts': 'viewer',

  'POST /identitytoolkit.googleapis.com/v1/accounts::signInWithCustomToken': 'open',
  'POST /identitytoolkit.googleapis.com/v1/accounts::signInWithPassword': 'open',
  'POST /identitytoolkit.googleapis.com/v1/accounts::lookup': 'open',
  'POST /securetoken.googleapis.com/v1/token': 'open',
  'GET /.well-known/openid-configuration': 'open',
  'GET /.well-known/jwks.json': 'open',

  'GET /': 'open',
  'GET /console': 'open',
  'GET /console/*': 'open',
  'GET /console/assets/*': 'open',

  'GET /api/v1/openapi.json': 'open',
  'GET /api/v1/asyncapi.json': 'open',
  'GET /api/v1/asyncapi': 'open',
  'GET /api/v1/reference': 'open',
  'GET /api/v1/reference/': 'open',
  'GET /api/v1/reference/js/scalar.js': 'open',
}

/** Actions say it themselves. */
function rolesOf(all: readonly Action[]): Record<string, Least> {
  return Object.fromEntries(
    all.flatMap(({ http }) => (http ? [[`${http.method} /api/v1${http.path}`, http.role]] : [])),
  )
}

/** What somebody who must change their password may do. */
const withFirstPassword: readonly string[] = ['GET /api/v1/me', 'PUT /api/v1/me/password']

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Kept by `requireEntries`: the route's name and least role in the table. */
    rbac?: { name: string; least: Least }
  }
}

/**
 * Every route that is registered later must be in the table; whoever adds one that is not gets an Error. When the app gets
 * ready, it is checked that each route which is not open asks for a token.
 */
export function requireEntries(app: FastifyInstance, table: Readonly<Record<string, Least>> = rbac): void {
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    const name = nameOf(route)
    if (!Object.hasOwn(table, name))
      throw new Error(`${name} is missing from the table of services/main-api/rbac.ts`)
    route.config = { ...route.config, rbac: { name, least: table[name]! } }
    routes.push(route)
  })
  app.addHook('onReady', (done) => {
    const unguarded = routes.filter(({ config = {} }) => config.rbac?.least !== 'open' && !config.credential)
    if (unguarded.length === 0) return done()
    done(new Error(`These routes ask for no token, but are not open: ${unguarded.map(nameOf).join(', ')}.`))
  })
}

/** The automatic HEAD of a GET needs what that needs. */
function nameOf({ method, url }: RouteOptions): string {
  const methods = [method].flat().filter((one) => one !== 'HEAD')
  return `${methods[0] ?? 'GET'} ${url}`
}

/** Callers whose role is too low are answered 403 before their body is read. */
export function enforceRoles(scope: FastifyInstance): void {
  scope.addHook('onRequest', (request, _reply, done) => {
    done(refusalOf(request))
  })
}

/** Behind the check of roles: notes what it refuses, reading aside. */
export function noteRefused(scope: FastifyInstance, refusals: Refusals): void {
  scope.addHook('onResponse', (request, _reply, done) => {
    const { caller, problemCode: reason, method, id: requestId } = request
    if (caller && reason === 'forbidden' && method !== 'GET' && method !== 'HEAD') {
      const actor = { kind: caller.kind, id: caller.uid }
      const target = `${method} ${request.routeOptions.url ?? ''}`
      refusals.note(`${actor.id} ${target}`, { actor, action: 'request.refuse', target, reason, requestId })
    }
    done()
  })
}

function refusalOf(request: FastifyRequest): AppError | undefined {
  const { rbac: entry } = request.routeOptions.config
  const caller = callerOf(request)
  if (!entry) return undefined
  if (mayCall(caller, entry.name, entry.least)) return undefined
  if (caller.mustChangePassword) {
    return new AppError('password_change_required', 'Change the password first: PUT /api/v1/me/password.')
  }
  return new AppError('forbidden', `This needs the role ${rolesFrom(entry.least).join(' or ')}.`)
}

function mayCall({ access, mustChangePassword }: Caller, name: string, least: Least): boolean {
  if (mustChangePassword && !withFirstPassword.includes(name)) return least === 'open'
  return rolesFrom(least).includes(access)
}

/** From the highest to the lowest. */
function rolesFrom(least: Least): readonly Access[] {
  return least === 'open' ? accessLevels : accessLevels.slice(0, accessLevels.indexOf(least) + 1)
}

const permissions = new Map<string, readonly string[]>()

/** The routes that the caller may call, as `METHOD /path` with parameters as `:name`. Callers of one kind get one list. */
export function permissionsOf(caller: Caller): readonly string[] {
  const kind = `${caller.access} ${caller.mustChangePassword ?? false}`
  const known = permissions.get(kind)
  if (known) return known
  const made = Object.entries(rbac)
    .filter(([name, least]) => least !== 'open' && mayCall(caller, name, least))
    .map(([name]) => name)
    .sort()
  permissions.set(kind, made)
  return made
}
