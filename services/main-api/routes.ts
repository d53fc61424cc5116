/** All routes of the main API. */

import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Closeable } from '#lib/resource.ts'
import { actions } from '#operations/list.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { wrapAnswers } from '#runtime/http/send-rows.ts'
import { requireToken } from '#services/access/callers/credentials.ts'
import { access } from '#services/access/front-door.ts'
import type { OneTimePassword } from '#services/access/people/first-admin.ts'
import { registerConsole } from './console.ts'
import { type MainApi, openMainApi } from './main-api.ts'
import { mountActions } from './mount-actions.ts'
import type { MainApiContext } from './operate.ts'
import { enforceRoles, noteRefused, requireEntries } from './rbac.ts'
import { registerAreas, registerDispatchList } from './routes/areas.ts'
import { registerAsyncApi } from './routes/asyncapi.ts'
import { registerAuthAgent } from './routes/auth-agent.ts'
import { registerGroups } from './routes/groups.ts'
import { registerIdentityToolkit } from './routes/identity-toolkit.ts'
import { registerLogRecords } from './routes/log-records.ts'
import { registerLogTail } from './routes/log-tail.ts'
import { registerMe, registerMyPassword } from './routes/me.ts'
import { registerSession } from './routes/session.ts'
import { registerState, registerWebhooks } from './routes/state.ts'
import { registerWellKnown } from './routes/well-known.ts'
import { envelope } from './schemas.ts'

const description =
  'Agents trade an agent key for a custom token here, that for an ID token at the identity provider, and send the ID token as ' +
  'Bearer credential; people sign in. Every route below says which role it needs: a viewer reads, a member makes, an admin ' +
  'manages. Successful answers are `{ok: true, data}`; every fault is an RFC 9457 problem document with a stable code. Where ' +
  'the provider is the local issuer, it is served here, too, with the paths and fields of Identity Toolkit.'

/** What operators do and see. */
const operators = [
  registerState,
  (scope: FastifyInstance, main: MainApi) =>
    mountActions(scope, main, actions, { 'webhooks targets': main.observed.targets }),
  registerAreas,
  registerDispatchList,
  registerGroups,
  registerLogRecords,
  registerLogTail,
  registerWebhooks,
]

export async function registerMainApi(
  app: FastifyInstance,
  context: MainApiContext,
  firstPassword?: Promise<OneTimePassword>,
): Promise<Closeable> {
  const main = await openMainApi(context, portOf(app), firstPassword)
  app.addHook('preClose', (done) => {
    main.streams.endAll()
    done()
  })
  requireEntries(app)
  await registerApiDescription(app, {
    prefix: '/api/v1',
    title: 'Flotilla main API',
    version: '1',
    description,
    front: '/console/',
    tags: [
      { name: 'identity', description: 'Agent keys, tokens, who is calling' },
      { name: 'people', description: 'Sign-in, sessions, passwords, roles' },
      { name: 'identity provider', description: 'The local issuer, as Identity Toolkit' },
      { name: 'state', description: 'The platform at a glance' },
      { name: 'agents', description: 'Who may use the platform' },
      { name: 'notes', description: 'Notes of the hub and their threads' },
      { name: 'goals', description: 'Goals of the hub and their states' },
      { name: 'runs', description: 'Messages to one agent' },
      { name: 'dispatches', description: 'Messages to all agents' },
      { name: 'sessions', description: 'Messages and answers under one id' },
      { name: 'schedules', description: 'Messages by the clock' },
      { name: 'log', description: 'Topics and reader groups' },
      { name: 'dead letters', description: 'What the workers gave up on' },
      { name: 'webhooks', description: 'Targets and their attempts' },
      { name: 'audit', description: 'Who did what' },
    ],
  })
  if (main.identity.driver === 'local') {
    const { identity } = main
    await app.register(async (scope) => registerIdentityToolkit(scope, { ...main, identity }))
    await app.register(async (scope) => registerWellKnown(scope, identity))
  }
  await app.register(async (scope) => registerConsole(scope))
  await app.register(async (scope) => registerAsyncApi(scope, context))
  await app.register(
    async (v1) => {
      wrapAnswers(v1, envelope)
      registerAuthAgent(v1, main)
      await v1.register(async (scope) => registerSession(scope, main))
      await v1.register(async (scope) => {
        access(scope, {
          credential: requireToken(main),
          roles: (all) => {
            enforceRoles(all)
            noteRefused(all, main.refusedChanges)
          },
          limits: main.limiter,
        })
        registerMe(scope)
        registerMyPassword(scope, main)
        for (const register of operators) await register(scope, main)
      })
    },
    { prefix: '/api/v1' },
  )
  return main
}

/** Port of the interface, once it listens; cached, since every token needs it. */
function portOf(app: FastifyInstance): () => number | undefined {
  let port: number | undefined
  return () => {
    port ??= (app.server.address() as AddressInfo | null)?.port
    return port
  }
}
