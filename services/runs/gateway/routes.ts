/** All routes of the run gateway. */

import type { FastifyInstance } from 'fastify'
import type { Closeable } from '#lib/resource.ts'
import { registerApiDescription } from '#runtime/http/app.ts'
import { requireKeyOrToken } from '#services/access/callers/credentials.ts'
import { access } from '#services/access/front-door.ts'
import { openRunGateway, type RunGatewayContext } from './gateway.ts'
import { registerOpenAi } from './openai/routes.ts'
import { registerAgents } from './routes/agents.ts'
import { registerDispatch, registerDispatches } from './routes/dispatches.ts'
import { registerInput } from './routes/input.ts'
import { registerRun } from './routes/run.ts'
import { registerRuns } from './routes/runs.ts'
import { registerSchedules } from './routes/schedules.ts'
import { registerSessions } from './routes/sessions.ts'

const description =
  'Messages to agents. `POST /<agent>/run` sends one to an agent and answers its events as Google ADK’s `/run` does; `POST ' +
  '/dispatch` sends one to all of them. An agent that is named in a message, with `@name` or by its codename in capitals, joins ' +
  'the conversation, and its events join the answer. A run goes on when its caller leaves: `/runs/{runId}` shows it, ' +
  '`/runs/{runId}/events` goes on behind any event, `/runs/{runId}/cancel` ends it, `/runs/{runId}/input` answers its question. Agents send a gateway key or an ID token, ' +
  'people an ID token. A viewer reads; a member also starts and cancels runs. Runs are seen by who started them, by their user ' +
  'and by admins. Every fault is an RFC 9457 problem document with a stable code.'

export async function registerRunGateway(
  app: FastifyInstance,
  context: RunGatewayContext,
): Promise<Closeable> {
  const gateway = await openRunGateway(context)
  app.addHook('preClose', (done) => {
    gateway.waits.endAll()
    gateway.streams.endAll()
    done()
  })
  await registerApiDescription(app, {
    prefix: '',
    title: 'Flotilla run gateway',
    version: '1',
    description,
    tags: [
      { name: 'agents', description: 'Who can be called' },
      { name: 'runs', description: 'Messages to one agent' },
      { name: 'dispatches', description: 'Messages to all agents' },
      { name: 'sessions', description: 'Messages and answers under one id' },
      { name: 'schedules', description: 'Messages by the clock' },
      { name: 'chat windows', description: 'Agents as models of OpenAI’s API' },
    ],
  })
  await app.register(async (scope) => {
    access(scope, { credential: requireKeyOrToken(gateway), limits: gateway.limiter })
    registerAgents(scope, gateway)
    registerRun(scope, gateway)
    registerDispatch(scope, gateway)
    registerRuns(scope, gateway)
    registerInput(scope, gateway)
    registerDispatches(scope, gateway)
    registerSessions(scope, gateway)
    registerSchedules(scope, gateway)
    registerOpenAi(scope, gateway)
  })
  return gateway
}
