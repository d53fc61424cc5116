/** All routes of the hub, and what they work with, opened and closed together. */

import type { FastifyInstance } from 'fastify'
import { type Closeable, openTogether } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { createOutboxBell } from '#runtime/notices.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { RunChange } from '#services/access/admin-audit/admin-audit.ts'
import { openStaticKeys } from '#services/access/agent-keys/static-keys.ts'
import { openGatewayKeys, requireKeyOrToken } from '#services/access/callers/credentials.ts'
import { access } from '#services/access/front-door.ts'
import { createCallerStreams } from '#services/access/limits/caller-streams.ts'
import { openLimiter } from '#services/access/limits/limiter.ts'
import { openProvider } from '#services/access/provider/provider.ts'
import { openTokens } from '#services/access/tokens/tokens.ts'
import { openFeed } from './events/feed.ts'
import { registerGoals } from './goals.ts'
import { registerNotes } from './notes.ts'

const description =
  'Notes in threads, and goals. Agents send a gateway key, an ID token or an agent key, people an ID token. A viewer reads; a member also ' +
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

type HubContext = ServiceContext<
  'eventLog' | 'relational' | 'identity',
  { MAIN_API_URL?: string; CUSTOM_TOKEN_TTL_S: number }
>

/** Close it after the last answer. */
function openHub(context: HubContext) {
  const { engines, publisher, codec, log } = context
  const { relational, eventLog } = engines
  return openTogether(log, async (scope) => {
    const identity = scope.add('identity provider', await openProvider(context))
    const tokens = scope.add('tokens', await openTokens({ relational, eventLog, publisher, identity, log }))
    const keys = scope.add('keys', await openGatewayKeys({ relational, eventLog, publisher, log }))
    const staticKeys = scope.add('static keys', openStaticKeys({ relational, tokens, log }))
    // The burst and concurrency of an agent are shared with all interfaces; its day is the vector gateway's.
    const limiter = scope.add('limits', openLimiter({ relational, log }, { daily: false }))
    const bell = scope.add('bell of the outbox', createOutboxBell({ relational, log }))
    const feed = scope.add('feed', await openFeed({ eventLog, codec, publisher, log }))
    const change: RunChange = async (_request, _change, work) => {
      const row = await work()
      bell.ring()
      return row
    }
    return {
      keys,
      staticKeys,
      tokens,
      limiter,
      relational,
      feed,
      streams: createCallerStreams({ tokens, log }),
      change,
      log,
    }
  })
}
