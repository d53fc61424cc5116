/**
 * Agents get key pairs: on this machine the private key is a file of the operator's; over HTTP it lies in a volume of the
 * caller's, or is in the answer and nowhere else.
 */

import { dirname } from 'node:path'
import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import {
  type AgentChanged,
  type AgentKey,
  agentIdPattern,
  agentIdRule,
  checkAgentId,
  defaultKeyFile,
  placePrivateKey,
  provisionAgent,
  rotateAgent,
  showAgent,
} from '#services/access/agents/agents.ts'
import { defineAction } from '../action.ts'
import type { ChangeContext } from '../change.ts'
import {
  type AgentView,
  agentFields,
  agentInPath,
  agentServices,
  agentSettings,
  noteOf,
  published,
  viewOf,
} from './agent.ts'
import { volumeFolder, volumeName } from './volumes.ts'

/** What provisioning answers at the command line: documented field by field. */
type AgentWithFile = Omit<AgentView, 'name' | 'burst' | 'concurrent'> & { private_key_file: string }
type AgentWithKey = AgentView & { private_key?: string; volume?: string }
type KeyWork = (key?: AgentKey) => Promise<AgentChanged & { privateKeyPem: string }>

const problems = [
  'conflict',
  'relational_engine_unavailable',
  'log_unavailable',
  'storage_unavailable',
] as const

const nameOfAgent = Type.Optional(Type.String({ description: 'What people read; by default the agent id.' }))
/** A new agent has the tier's own where nothing is said. */
const figures = {
  quota: Type.Optional(Type.Integer({ minimum: 0 })),
  burst: Type.Optional(Type.Integer({ minimum: 1 })),
  concurrent: Type.Optional(Type.Integer({ minimum: 1 })),
}
const folder = {
  /** Absolute. Default: agents/<id> below the data directory. */
  volume: Type.Optional(Type.String()),
  force: Type.Optional(Type.Boolean()),
}
const volume = {
  volume: Type.Optional(volumeName),
  force: Type.Optional(
    Type.Boolean({ description: 'Replaces a key that the volume holds already; else that is 409.' }),
  ),
}
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
/** No cache on the way may keep a private key. */
const notKept = { 'cache-control': 'no-store' }

const provision = {
  summary: 'Make an agent with an Ed25519 key pair',
  services: agentServices,
  change: { action: 'agent.provision', target: ({ agent_id }: { agent_id: string }) => agent_id },
} as const
const rotate = {
  summary: 'Give an agent another key pair; the old one and all that was opened with it stop working',
  services: agentServices,
  change: { action: 'agent.rotate', target: ({ agent_id }: { agent_id: string }) => agent_id },
} as const

const keyOptions = {
  volume: ['dir', 'where ed25519.pem is written (default: agents/<id> in the data directory)'],
  force: 'replace a key file that is already there',
} as const

export const provisionAgentAction = defineAction({
  ...provision,
  name: 'agents provision',
  args: Type.Object({ agent_id: Type.String(), name: nameOfAgent, ...agentSettings, ...figures, ...folder }),
  async run(context: ChangeContext, { agent_id, volume, force, ...settings }) {
    const work = provisioning(context, { agent_id, ...settings })
    return (await intoFile(context, { agent_id, volume, force }, work)).shown
  },
  cli: [
    {
      summary: 'Make an agent; its private key is written once and kept nowhere else',
      positional: ['agent_id'],
      options: {
        agent_id: ['id', 'the same: letters, digits, dots, underscores, hyphens; at most 64'],
        role: ['role', 'a free label (default: knowledge-worker)'],
        access: ['access', 'a viewer may only read (default: member)'],
        quota: ['operations', "operations a day instead of the tier's own"],
        burst: ['operations', "operations a second instead of the tier's own"],
        concurrent: ['operations', "operations at once instead of the tier's own"],
        tier: ['tier', 'limits (default: agent)'],
        ...keyOptions,
      },
      folders: ['volume'],
      example: 'flotilla agents provision scout --role researcher --json',
      render: (made) => ({ fields: made }),
    },
  ],
})

export const rotateAgentAction = defineAction({
  ...rotate,
  name: 'agents rotate',
  args: Type.Object({ agent_id: Type.String(), ...folder }),
  async run(context: ChangeContext, { agent_id, ...place }) {
    const known = await spelled(context, agent_id)
    const placed = intoFile(context, { agent_id: known, ...place }, rotating(context, known))
    return (await published(context.platform, placed)).shown
  },
  cli: [
    {
      positional: ['agent_id'],
      options: keyOptions,
      folders: ['volume'],
      example: 'flotilla agents rotate scout --force',
      render: (rotated) => ({ fields: rotated }),
    },
  ],
})

export const provisionRemoteAction = defineAction({
  ...provision,
  name: 'agents provision remote',
  args: Type.Object({
    agent_id: Type.String({ pattern: agentIdPattern.source, rule: agentIdRule, examples: ['scout'] }),
    name: nameOfAgent,
    ...agentSettings,
    ...volume,
  }),
  async run(context: ChangeContext, { agent_id, volume, force, ...settings }) {
    const work = provisioning(context, { agent_id, ...settings })
    return (await intoVolume(context, { agent_id, volume, force }, work)).shown
  },
  http: {
    method: 'POST',
    path: '/agents',
    operationId: 'provisionAgent',
    tag: 'agents',
    role: 'admin',
    problems: [...problems, 'agent_exists'],
    body: { title: 'NewAgent', examples: [{ agent_id: 'scout', role: 'researcher' }] },
    answer: agentWithKey,
    status: 201,
    headers: ({ agent_id }, place) => ({ ...notKept, location: `${place}/${agent_id}` }),
  },
})

export const rotateRemoteAction = defineAction({
  ...rotate,
  name: 'agents rotate remote',
  args: Type.Object({ agent_id: Type.String(), ...volume }),
  async run(context: ChangeContext, { agent_id, ...place }) {
    const known = await spelled(context, agent_id)
    const placed = intoVolume(context, { agent_id: known, ...place }, rotating(context, known))
    return (await published(context.platform, placed)).shown
  },
  http: {
    method: 'POST',
    path: '/agents/:agent_id/rotate',
    operationId: 'rotateAgent',
    tag: 'agents',
    role: 'admin',
    problems: [...problems, 'not_found'],
    fields: { agent_id: agentInPath },
    body: { title: 'KeyRotation', examples: [{}] },
    answer: agentWithKey,
    headers: () => notKept,
  },
})

type Settings = Omit<Parameters<typeof provisionAgent>[1], 'agentId'> & { agent_id: string }

function provisioning(context: ChangeContext, { agent_id, ...settings }: Settings): KeyWork {
  const { relational } = context.platform.engines
  return (key) => provisionAgent(relational, { agentId: agent_id, ...settings }, key, noteOf(context))
}

function rotating(context: ChangeContext, id: string): KeyWork {
  const { relational } = context.platform.engines
  return (key) => rotateAgent(relational, id, key, noteOf(context))
}

/** Its own spelling names the folder, in whatever case it was asked for. */
async function spelled({ platform }: ChangeContext, id: string): Promise<string> {
  return (await showAgent(platform.engines.relational, id)).agent_id
}

interface Place {
  agent_id: string
  volume?: string | undefined
  force?: boolean | undefined
}

function placeOf({ agent_id, force }: Place, directory: string) {
  // It becomes the name of a folder: checked before one is made.
  checkAgentId(agent_id)
  return { directory, ...(force ? { force } : {}) }
}

interface Placed<T> {
  shown: T
  outboxId: number
}

async function intoFile(
  { platform }: ChangeContext,
  place: Place,
  work: KeyWork,
): Promise<Placed<AgentWithFile>> {
  const directory = place.volume ?? dirname(defaultKeyFile(platform.home, place.agent_id))
  const { agent, privateKeyFile, outboxId } = await placePrivateKey(placeOf(place, directory), work)
  const { name: _, burst: __, concurrent: ___, ...shown } = viewOf(agent)
  return { shown: { ...shown, private_key_file: privateKeyFile }, outboxId }
}

async function intoVolume(
  { platform }: ChangeContext,
  place: Place,
  work: KeyWork,
): Promise<Placed<AgentWithKey>> {
  const { volume } = place
  if (volume === undefined) {
    const { agent, privateKeyPem, outboxId } = await work()
    return { shown: { ...viewOf(agent), private_key: privateKeyPem }, outboxId }
  }
  const directory = volumeFolder(platform.env, volume)
  try {
    const { agent, outboxId } = await placePrivateKey(placeOf(place, directory), work)
    return { shown: { ...viewOf(agent), volume }, outboxId }
  } catch (error) {
    // Callers know a volume by its name, and no options of a command: no path of this machine is answered.
    if (!(error instanceof AppError) || !error.message.includes(directory)) throw error
    const message = error.message
      .replaceAll(directory, volume)
      .replace('with --force', 'with `"force": true`')
    throw new AppError(error.code, message, { cause: error })
  }
}
