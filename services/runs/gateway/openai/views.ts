/** What OpenAI's clients see: models, whole completions and chunks. */

import { type Static, Type } from 'typebox'
import type { RunNode } from '../../nodes/nodes.ts'

export const model = Type.Object(
  {
    id: Type.String({ description: 'The codename of an agent.', examples: ['ATLAS'] }),
    object: Type.Literal('model'),
    created: Type.Integer({ description: '0: agents have no such time.' }),
    owned_by: Type.String(),
  },
  { title: 'ChatModel', description: 'An agent.' },
)

export const models = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(model) },
  { title: 'ChatModels', description: 'The agents, in the order of the nodes file.' },
)

const usage = Type.Object(
  {
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
  },
  { title: 'ChatUsage', description: 'As the nodes of the agents count; 0 where they count nothing.' },
)

export const chatCompletion = Type.Object(
  {
    id: Type.String({ description: '`chatcmpl-` and the id of the run.' }),
    object: Type.Literal('chat.completion'),
    created: Type.Integer({ description: 'In seconds.' }),
    model: Type.String({ examples: ['ATLAS'] }),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        message: Type.Object({
          role: Type.Literal('assistant'),
          content: Type.String({ description: 'What the agent said, then what those said that joined it.' }),
          refusal: Type.Union([Type.String(), Type.Null()], { description: 'Null.' }),
        }),
        logprobs: Type.Union([Type.Object({}), Type.Null()], { description: 'Null.' }),
        finish_reason: Type.Enum(['stop', 'length'], {
          type: 'string',
          description: '`length`: the answer was longer than 256 KiB, and is cut; the run has all of it.',
        }),
      }),
    ),
    usage,
  },
  { title: 'ChatCompletion', description: 'One answer.' },
)

export type Usage = Static<typeof usage>

export function viewOfModel({ codename }: RunNode) {
  return { id: codename, object: 'model' as const, created: 0, owned_by: 'flotilla' }
}

/** What all chunks of one answer have. */
export interface Head {
  id: string
  created: number
  model: string
}

interface Delta {
  role?: 'assistant'
  content?: string
}

/** `usage` where the request wants it: null but in the last chunk. */
export function chunkOf(head: Head, delta: Delta, finish: 'stop' | null, usage?: null) {
  return {
    ...head,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
    ...(usage === undefined ? {} : { usage }),
  }
}

export function usageChunk(head: Head, counts: Usage) {
  return { ...head, object: 'chat.completion.chunk', choices: [], usage: counts }
}
