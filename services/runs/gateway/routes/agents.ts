/** /agents: who can be called, and whose node answers. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { RunNode } from '../../nodes/nodes.ts'
import { type NodeState, readNodeStates } from '../../state/node-rows.ts'
import type { RunGateway } from '../gateway.ts'
import { nodeOf } from '../requests.ts'

/** The one that nodes speak. */
const protocol = 'adk'

const callableAgent = Type.Object(
  {
    slug: Type.String({ description: 'Its path: `/<slug>/run`, in any case.', examples: ['whale'] }),
    codename: Type.String({ description: 'Its name in messages.', examples: ['WHALE'] }),
    role: Type.String({ description: 'Empty where the nodes file says none.' }),
    protocol: Type.Enum([protocol], { type: 'string', description: 'Between the platform and its node.' }),
    up: Type.Boolean({ description: 'Whether its node answers.' }),
    lastSeen: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
      description: 'When its node last answered; null: not yet.',
    }),
    skills: Type.Array(Type.String(), { description: 'As the nodes file lists them.' }),
  },
  { title: 'CallableAgent', description: 'An agent that takes messages.' },
)

const agents = Type.Array(callableAgent, {
  title: 'CallableAgents',
  description: 'In the order of the nodes file.',
})

export function registerAgents(scope: FastifyInstance, { nodes, relational }: RunGateway): void {
  const tags = ['agents']
  scope.route({
    method: 'GET',
    url: '/agents',
    config: { problems: [] },
    schema: {
      operationId: 'listCallableAgents',
      tags,
      summary: 'List the agents that take messages',
      response: { 200: agents },
    },
    async handler() {
      const states = await readNodeStates(relational)
      const bySlug = new Map(states.map((state) => [state.slug, state]))
      return nodes.current().nodes.map((node) => viewOf(node, bySlug.get(node.slug)))
    },
  })
  scope.route({
    method: 'GET',
    url: '/agents/:slug',
    config: { problems: ['agent_not_found'] },
    schema: {
      operationId: 'getCallableAgent',
      tags,
      summary: 'Show an agent that takes messages',
      params: Type.Object({
        slug: Type.String({ description: 'The agent, in any case.', examples: ['whale'] }),
      }),
      response: { 200: callableAgent },
    },
    async handler({ params }) {
      const node = nodeOf(nodes.current(), (params as { slug: string }).slug)
      const states = await readNodeStates(relational)
      return viewOf(
        node,
        states.find(({ slug }) => slug === node.slug),
      )
    },
  })
}

/** Without a row its node was not asked yet. */
function viewOf({ slug, codename, role, skills }: RunNode, state: NodeState | undefined) {
  const lastSeen = state?.lastSeen?.toISOString() ?? null
  return { slug, codename, role, protocol, up: state?.status === 'up', lastSeen, skills }
}
