/** The request of a chat completion: which agent it asks, its message, and whether a session goes on. */

import type { FastifyRequest } from 'fastify'
import { type TSchema, Type } from 'typebox'
import { shownAs } from '#runtime/http/api/facts.ts'
import type { RunNode } from '../../nodes/nodes.ts'
import type { Part } from '../../state/types.ts'
import type { RunGateway } from '../gateway.ts'
import { checkParts, faulty, messageBytesMax } from '../message-parts.ts'
import { checkedId, nodeNamed, refuseNul } from '../requests.ts'
import { partsOf, wordsOf } from './content.ts'
import { historyText } from './history.ts'

const turnsMax = 10_000
/** With less room it is left out. */
const historyBytesMin = 1_024

/** OpenAI's clients send null for what they leave out. */
const absentOr = (schema: TSchema) => Type.Optional(Type.Union([schema, Type.Null()], shownAs(schema)))

const turn = Type.Object(
  {
    role: Type.String({
      description: '`system`, `developer`, `user`, `assistant` or `tool`.',
      examples: ['user'],
    }),
    content: Type.Optional(
      Type.Any({
        description:
          'A text, or a list of parts: `text`, `image_url` (a data URL is sent along, of another one the agent gets the address), ' +
          '`input_audio` and `file` with `file_data`.',
        examples: ['Where is the courier described?'],
      }),
    ),
  },
  { title: 'ChatTurn' },
)

export const chatRequest = Type.Object(
  {
    model: Type.String({ description: 'Codename or slug of an agent, in any case.', examples: ['WHALE'] }),
    messages: Type.Array(turn, {
      minItems: 1,
      maxItems: turnsMax,
      description:
        'The last one of a user is the message to the agent. Where no session is named the others go along as text in front of it: ' +
        'instructions and the newest, as many as a message has room for.',
    }),
    stream: absentOr(Type.Boolean({ description: 'The answer as it comes, as server-sent events.' })),
    stream_options: absentOr(
      Type.Object({ include_usage: absentOr(Type.Boolean({ description: 'A last chunk with `usage`.' })) }),
    ),
    user: absentOr(
      Type.String({
        description: 'Names the session where the header `X-Session-Id` does not. Default: a new one.',
      }),
    ),
  },
  {
    title: 'ChatCompletionRequest',
    description:
      'As OpenAI’s API has it. Options that mean nothing to an agent are ignored, such as `temperature`, `top_p`, `max_tokens`, `stop` ' +
      'and `seed`. Refused is what would be missed in silence: `tools`, `functions`, `tool_choice` and `function_call` but `none` and ' +
      '`auto`, `n` above 1, `response_format` but `text`, `logprobs`, `modalities` but `text`, `audio` and `web_search_options`.',
  },
)

interface ChatBody {
  model: string
  messages: { role: string; content?: unknown }[]
  stream?: boolean | null
  stream_options?: { include_usage?: boolean | null } | null
  user?: string | null
  [option: string]: unknown
}

export interface ChatAsked {
  node: RunNode
  /** Undefined: a new one, for this message alone. */
  sessionId: string | undefined
  /** The last message of the user. */
  parts: Part[]
  /** As `parts`, with the history in front of them where no session is named. */
  message: { role: string; parts: Part[] }
  stream: boolean
  includeUsage: boolean
}

/** Throws AppError `agent_not_found`, `validation_failed`, `payload_too_large`. */
export function readChatRequest({ nodes }: Pick<RunGateway, 'nodes'>, request: FastifyRequest): ChatAsked {
  const body = request.body as ChatBody
  refuseOptions(body)
  const node = nodeNamed(nodes.current(), body.model)
  const header = (request.headers['x-session-id'] as string | undefined) || undefined
  const sessionId =
    header === undefined ? checkedId(body.user || undefined, 'user') : checkedId(header, 'X-Session-Id')
  const last = body.messages.findLastIndex(({ role }) => role === 'user')
  if (last < 0) throw faulty('messages', 'at least one with the role user')
  const at = `messages/${last}/content`
  const parts = checkParts(partsOf(body.messages[last]!.content, at), at)
  refuseNul(parts, at)
  const history = sessionId === undefined ? historyOf(body.messages, last, parts) : []
  return {
    node,
    sessionId,
    parts,
    message: { role: 'user', parts: [...history, ...parts] },
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
  }
}

function historyOf(turns: ChatBody['messages'], last: number, parts: readonly Part[]): Part[] {
  const said = turns.flatMap(({ role, content }, n) => (n === last ? [] : [{ role, text: wordsOf(content) }]))
  const inline = parts.map(({ inlineData: _, ...rest }) => rest)
  const room = messageBytesMax - Buffer.byteLength(JSON.stringify(inline))
  const text = room < historyBytesMin ? undefined : historyText(said, room)
  if (text === undefined) return []
  refuseNul(text, 'messages')
  return [{ text }]
}

const isFilled = (value: unknown) => Array.isArray(value) && value.length > 0
const isChoice = (value: unknown) =>
  value !== undefined && value !== null && value !== 'none' && value !== 'auto'
const isSet = (value: unknown) => value !== undefined && value !== null

/** Option → whether it would be missed in silence, and what to do. */
const refusals: Record<string, [refused: (value: unknown) => boolean, rule: string]> = {
  tools: [isFilled, 'leave it out: agents bring their own tools'],
  functions: [isFilled, 'leave it out: agents bring their own tools'],
  tool_choice: [isChoice, 'none, auto, or leave it out'],
  function_call: [isChoice, 'none, auto, or leave it out'],
  n: [(value) => isSet(value) && value !== 1, '1: an agent gives one answer'],
  response_format: [
    (value) => isSet(value) && (value as { type?: unknown }).type !== 'text',
    'only {"type": "text"}: agents answer in words',
  ],
  logprobs: [(value) => value === true, 'leave it out: agents tell no probabilities'],
  modalities: [(value) => isFilled(value) && (value as unknown[]).some((one) => one !== 'text'), 'only text'],
  audio: [isSet, 'leave it out: agents answer in words'],
  web_search_options: [isSet, 'leave it out: agents bring their own tools'],
}

function refuseOptions(body: ChatBody): void {
  for (const [name, [refused, rule]] of Object.entries(refusals)) {
    if (refused(body[name])) throw faulty(name, rule)
  }
}
