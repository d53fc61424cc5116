/** POST /api/v1/agents and /api/v1/agents/{agent_id}/rotate: an agent gets a key pair. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import {
  provisionRemoteOperation,
  type RemoteAgent,
  rotateRemoteOperation,
} from '#operations/agents-remote.ts'
import { agentIdPattern } from '#services/access/agents/agents.ts'
import { volumeFolder, volumeName } from '../agent-volumes.ts'
import { closed } from '../envelope.ts'
import type { MainApi } from '../main-api.ts'
import { operate } from '../operate.ts'
import { agentFields, agentSettings } from '../schemas.ts'
import { agentParams } from './agents.ts'

const keyPlace = {
  volume: Type.Optional(volumeName),
  force: Type.Optional(
    Type.Boolean({ description: 'Replaces a key that the volume holds already; else that is 409.' }),
  ),
}

const newAgent = Type.Object(
  {
    agent_id: Type.String({ pattern: agentIdPattern.source, examples: ['scout'] }),
    name: Type.Optional(Type.String({ description: 'What people read; by default the agent id.' })),
    ...agentSettings,
    ...keyPlace,
  },
  { ...closed, title: 'NewAgent', examples: [{ agent_id: 'scout', role: 'researcher' }] },
)

const rotation = Type.Object(keyPlace, { ...closed, title: 'KeyRotation', examples: [{}] })

const agentWithKey = Type.Object(
  {
    ...agentFields,
    private_key: Type.Optional(
      Type.String({ description: 'PKCS#8 PEM, without `volume`: shown in this answer and kept nowhere.' }),
    ),
    volume: Type.Optional(Type.String({ description: 'The volume that holds it as `ed25519.pem`.' })),
  },
  { title: 'AgentWithKey' },
)

const problems = [
  'forbidden',
  'conflict',
  'relational_engine_unavailable',
  'log_unavailable',
  'storage_unavailable',
] as const

interface Place {
  volume?: string
  force?: boolean
}

export function registerProvisioning(scope: FastifyInstance, { context }: MainApi): void {
  const routes = scope.withTypeProvider<TypeBoxTypeProvider>()
  routes.post(
    '/agents',
    {
      config: { problems: [...problems, 'agent_exists'] },
      schema: {
        operationId: 'provisionAgent',
        tags: ['agents'],
        summary: 'Make an agent with an Ed25519 key pair',
        body: newAgent,
        response: { 201: agentWithKey },
      },
    },
    async (request, reply) => {
      const { agent_id: agentId, volume, force, ...settings } = request.body
      const made = await withVolume({ volume, force }, (place) =>
        operate(context, request, provisionRemoteOperation, { agentId, ...settings, ...place }),
      )
      reply.code(201)
      reply.header('location', `/api/v1/agents/${made.agent_id}`)
      return shownOnce(reply, made, volume)
    },
  )
  routes.post(
    '/agents/:agent_id/rotate',
    {
      config: { problems: [...problems, 'not_found'] },
      schema: {
        operationId: 'rotateAgent',
        tags: ['agents'],
        summary: 'Give an agent another key pair',
        description: 'The old one and the gateway keys that it opened stop working before this answers.',
        params: agentParams,
        body: rotation,
        response: { 200: agentWithKey },
      },
    },
    async (request, reply) => {
      const { agent_id: agentId } = request.params
      const rotated = await withVolume(request.body, (place) =>
        operate(context, request, rotateRemoteOperation, { agentId, ...place }),
      )
      return shownOnce(reply, rotated, request.body.volume)
    },
  )

  /** Callers know a volume by its name, and no options of a command: no path of this machine is answered. */
  async function withVolume<T>(
    { volume, force }: { volume?: string | undefined; force?: boolean | undefined },
    run: (place: Place) => Promise<T>,
  ): Promise<T> {
    if (volume === undefined) return run({})
    const folder = volumeFolder(context.env, volume)
    try {
      return await run({ volume: folder, ...(force ? { force } : {}) })
    } catch (error) {
      if (!(error instanceof AppError) || !error.message.includes(folder)) throw error
      const message = error.message.replaceAll(folder, volume).replace('with --force', 'with `"force": true`')
      throw new AppError(error.code, message, { cause: error })
    }
  }
}

/** No cache on the way may keep a private key. */
function shownOnce(reply: FastifyReply, made: RemoteAgent, volume: string | undefined) {
  reply.header('cache-control', 'no-store')
  return { ...made, ...(volume === undefined ? {} : { volume }) }
}
