/** All routes of the hub. */

import type { FastifyInstance } from 'fastify'
import type { Closeable } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { requireKeyOrToken } from '#services/access/callers/credentials.ts'
import { access } from '#services/access/front-door.ts'
import { registerGoals } from './goals.ts'
import { type HubContext, openHub } from './hub.ts'
import { registerNotes } from './notes.ts'

const description =
  'Notes in threads, and goals. Agents send a gateway key or an ID token, people an ID token. A viewer reads; a member also ' +
  'makes notes and goals and changes its own; an admin changes all. Every path works with and without a slash at its end. ' +
  'Lists have the newest first; a page ends at `limit` rows or at 4 MiB, and where there is more, the header `Link` names the ' +
  'next page (`rel="next"`). An answer with one note or goal has its version as `ETag`; a change with `If-Match` is refused when the version is another one by then. Every ' +
  'fault is an RFC 9457 problem document with a stable code.'

export async function registerHub(app: FastifyInstance, context: HubContext): Promise<Closeable> {
  const hub = await openHub(context)
  app.addHook('preClose', (done) => {
    hub.streams.endAll()
    done()
  })
  await registerApiDescription(app, {
    prefix: '',
    title: 'Flotilla hub',
    version: '1',
    description,
    tags: [
      { name: 'notes', description: 'Notes and their threads' },
      { name: 'goals', description: 'Goals and their states' },
    ],
  })
  await app.register(async (scope) => {
    access(scope, { credential: requireKeyOrToken(hub), limits: hub.limiter })
    alsoWithSlash(scope)
    registerNotes(scope, hub)
    registerGoals(scope, hub)
  })
  return hub
}

/** Every route is found with a slash at its end, too; the description shows the one without. */
function alsoWithSlash(scope: FastifyInstance): void {
  scope.addHook('onRoute', (route) => {
    if (route.method === 'HEAD' || route.url.endsWith('/')) return
    scope.route({ ...route, url: `${route.url}/`, schema: { ...route.schema, hide: true } })
  })
}
