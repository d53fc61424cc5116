/** The requests of runs and dispatches: ADK bodies in either spelling, checked beyond their schemas, with what they leave out filled in. */

import type { FastifyRequest } from 'fastify'
import { type Static, type TProperties, type TSchema, Type } from 'typebox'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { pointerPart } from '#lib/path-part.ts'
import { visible } from '#lib/schema-faults.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import { withoutNul } from '#runtime/http/validation.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import type { NodeSet, RunNode, WatchedNodes } from '../nodes/nodes.ts'
import type { Content } from '../state/types.ts'
import {
  checkParts,
  faulty,
  type GivenParts,
  inlineBytesMax,
  messageBytesMax,
  part,
  partsMax,
  snakeOf,
} from './message-parts.ts'
import { userFor } from './owned.ts'

/** Size of state and metadata, as JSON. */
const extrasBytesMax = 64 * 1024
/** A message whose every character is escaped, its bytes as base64, and the rest. */
export const bodyBytesMax = 2 * 1024 * 1024
const idLengthMax = 512

/** ADK's clients send null for what they leave out. */
const absentOr = (schema: TSchema) => Type.Optional(Type.Union([schema, Type.Null()], shownAs(schema)))

export const content = Type.Object(
  {
    role: absentOr(Type.String({ description: '`user`.' })),
    parts: Type.Array(Type.Object({}, { additionalProperties: true, ...shownAs(part) }), {
      minItems: 1,
      maxItems: partsMax,
    }),
  },
  {
    title: 'Content',
    description: `A message: at least one part; at most ${messageBytesMax} bytes, and ${inlineBytesMax} in its inlineData.`,
  },
)

const userIdDescription =
  'Default: the caller. Agents name users of their own as they like. The id of an agent, or the uid of a person, of the ' +
  'platform may be named by that one and by admins alone; people who are no admins name themselves alone.'
const sessionIdDescription =
  'Default: a new one. A session belongs to its user: one that an earlier agent of the same id, or a free name, began is refused.'

const id = (description: string) => Type.String({ minLength: 1, maxLength: 2 * idLengthMax, description })
const object = (description: string) => Type.Record(Type.String(), Type.Any(), { description })

/** A body with these properties in both spellings; others are ignored, as ADK does. The description shows the one. */
function bothSpellings(properties: TProperties, options: { title: string; description: string }): TSchema {
  const shown = Type.Object(properties, options)
  const optional = (nameOf: (name: string) => string) =>
    Object.entries(properties).map(([name, schema]) => [nameOf(name), Type.Optional(schema)])
  const all = Object.fromEntries([...optional(snakeOf), ...optional((name) => name)]) as TProperties
  return Type.Object(all, { title: options.title, ...shownAs(shown) })
}

/** The field by either name; undefined for null. */
function fieldOf<T>(body: Record<string, unknown>, name: string): T | undefined {
  return (body[name] ?? body[snakeOf(name)] ?? undefined) as T | undefined
}

/** Throws AppError `validation_failed` for an id that is too long, holds NUL, or cannot be a part of a node's paths. */
export function checkedId(value: string | undefined, name: string): string | undefined {
  if (value === undefined) return undefined
  if ([...value].length > idLengthMax) throw faulty(name, `at most ${idLengthMax} characters`)
  if (value === '.' || value === '..') throw faulty(name, 'must not be . or .., which lead to other paths')
  refuseNul(value, name)
  return value
}

/** Throws AppError `validation_failed` for no message of a user, `payload_too_large` for one that is too long. */
export function checkedMessage(message: string | Content | undefined, name: string): Content {
  if (message === undefined) throw faulty(name, 'is required')
  const given: Content = typeof message === 'string' ? { parts: [{ text: message }] } : message
  const { role, parts } = given
  if (role !== undefined && role !== null && role !== 'user')
    throw faulty(`${name}/role`, 'user, or leave it out')
  const at = `${name}/parts`
  checkParts(parts, at, typeof message === 'string' ? name : at)
  refuseNul(parts, at)
  return { role: 'user', parts }
}

/** State and metadata for the node. */
function checkedExtra(
  value: Record<string, unknown> | undefined,
  name: string,
): Record<string, unknown> | null {
  if (value === undefined) return null
  if (Buffer.byteLength(JSON.stringify(value)) > extrasBytesMax) {
    throw new AppError('payload_too_large', `${name} has at most ${extrasBytesMax} bytes of JSON.`)
  }
  refuseNul(value, name)
  return value
}

/** The database keeps no NUL in texts and JSON. */
export function refuseNul(value: unknown, name: string): void {
  const holds =
    typeof value === 'string' ? value.includes('\0') : /(?<!\\)(?:\\\\)*\\u0000/.test(JSON.stringify(value))
  if (holds) throw faulty(name, 'a text without the character NUL')
}

const metadataMax = { keys: 16, keyLength: 64, valueLength: 512 } as const
const metadata = Type.Record(Type.String(), Type.String(), {
  maxProperties: metadataMax.keys,
  description:
    `Texts by name, shown with the run: at most ${metadataMax.keys}, names of ${metadataMax.keyLength} characters, texts of ` +
    `${metadataMax.valueLength}. Lists are filtered by it: \`GET /runs?metadata.ticket=4711\`.`,
  examples: [{ ticket: '4711' }],
})

/** Metadata of a run, or a filter by it. Throws AppError `validation_failed`. */
export function checkedMetadata(value: Record<string, string> | undefined): Record<string, string> | null {
  const entries = Object.entries(value ?? {})
  if (entries.length > metadataMax.keys) throw faulty('metadata', `at most ${metadataMax.keys} names`)
  for (const [name, text] of entries) {
    const length = [...name].length
    if (length < 1 || length > metadataMax.keyLength)
      throw faulty('metadata', `names of 1 to ${metadataMax.keyLength} characters`)
    const at = `metadata/${pointerPart(name)}`
    if ([...text].length > metadataMax.valueLength)
      throw faulty(at, `at most ${metadataMax.valueLength} characters`)
    for (const one of [name, text]) refuseNul(one, at)
  }
  return entries.length === 0 ? null : (value as Record<string, string>)
}

const onBusy = Type.Enum(['enqueue', 'reject', 'interrupt'], {
  type: 'string',
  description:
    'While another run of the session is at work or asks: wait behind it (the default), 409 `session_busy`, or cancel it ' +
    '(`interrupted`); those that wait already go first.',
})

export const runRequest = bothSpellings(
  {
    appName: absentOr(
      Type.String({ description: 'The codename of the agent in the path.', examples: ['WHALE'] }),
    ),
    userId: absentOr(id(userIdDescription)),
    sessionId: absentOr(id(sessionIdDescription)),
    newMessage: content,
    streaming: absentOr(Type.Boolean({ description: 'Events as they come, pieces of texts among them.' })),
    stateDelta: absentOr(object('Changes of the session’s state; passed to the agent.')),
    customMetadata: absentOr(object('Passed to the agent.')),
    metadata: absentOr(metadata),
    onBusy: absentOr(onBusy),
  },
  {
    title: 'RunRequest',
    description: 'As Google ADK’s `/run`, in camelCase or snake_case. What is not known is ignored.',
  },
)

export type RunRequest = Awaited<ReturnType<typeof readRunRequest>>

/** Without a slug `appName` names the agent. Throws AppError `agent_not_found`, `app_name_mismatch`, `user_mismatch`, `validation_failed`, `payload_too_large`. */
export async function readRunRequest(
  parts: { nodes: Pick<WatchedNodes, 'current'>; relational: SqlExecutor },
  request: FastifyRequest,
  slug?: string,
) {
  const nodes = parts.nodes.current()
  const body = request.body as Record<string, unknown>
  const appName = fieldOf<string>(body, 'appName')
  const node = slug === undefined ? nodeNamed(nodes, appName) : nodeOf(nodes, slug)
  checkAppName(appName, node)
  return {
    node,
    userId: await userFor(parts.relational, callerOf(request), checkedId(fieldOf(body, 'userId'), 'userId')),
    /** Undefined: a new one. */
    sessionId: checkedId(fieldOf(body, 'sessionId'), 'sessionId'),
    message: checkedMessage(fieldOf(body, 'newMessage'), 'newMessage'),
    streaming: fieldOf<boolean>(body, 'streaming') ?? false,
    stateDelta: checkedExtra(fieldOf(body, 'stateDelta'), 'stateDelta'),
    customMetadata: checkedExtra(fieldOf(body, 'customMetadata'), 'customMetadata'),
    metadata: checkedMetadata(fieldOf(body, 'metadata')),
    onBusy: fieldOf<Static<typeof onBusy>>(body, 'onBusy') ?? 'enqueue',
    /** False: only the events of this run. */
    join: (request.query as { join?: string }).join !== 'false',
  }
}

/** By codename or slug, in any case. Throws AppError `agent_not_found`, and `validation_failed` for no name. */
export function nodeNamed(nodes: NodeSet, appName: string | undefined): RunNode {
  if (appName === undefined) throw faulty('appName', 'is required')
  return nodes.byCodename(appName) ?? nodeOf(nodes, appName)
}

/** The node of the agent, whose slug may be in any case. Throws AppError `agent_not_found`. */
export function nodeOf(nodes: NodeSet, slug: string): RunNode {
  const node = nodes.bySlug(slug.toLowerCase())
  if (node) return node
  throw agentNotFound(nodes, slug)
}

const namedMax = 10

/** AppError `agent_not_found` that names agents. */
function agentNotFound({ nodes }: NodeSet, slug: string): AppError {
  const named = nodes.slice(0, namedMax).map((node) => node.slug)
  const more = nodes.length - named.length
  const there = named.length === 0 ? 'The nodes file names none' : `There are ${named.join(', ')}`
  return new AppError(
    'agent_not_found',
    `There is no agent ${visible(slug)}. ${there}${more > 0 ? ` and ${more} more (GET /agents)` : ''}.`,
  )
}

function checkAppName(appName: string | undefined, { codename, slug, app }: RunNode): void {
  if (appName === undefined) return
  const names = [codename, slug, app].map((name) => name.toLowerCase())
  if (names.includes(appName.toLowerCase())) return
  throw new AppError('app_name_mismatch', `appName must be ${codename}, the agent of the path.`)
}

const message = Type.Union([Type.String({ examples: ['What do you know about the relay?'] }), content], {
  description: 'A text, or a message as in a run.',
})

export const dispatchRequest = bothSpellings(
  {
    userId: absentOr(id(userIdDescription)),
    sessionId: absentOr(id(sessionIdDescription)),
    message: { ...message, ...shownAs(message) },
    metadata: absentOr(metadata),
  },
  { title: 'DispatchRequest', description: 'What is not known is ignored.' },
)

/** Throws AppError `user_mismatch`, `validation_failed`, `payload_too_large`. */
export async function readDispatchRequest(executor: SqlExecutor, request: FastifyRequest) {
  const body = request.body as Record<string, unknown>
  return {
    userId: await userFor(executor, callerOf(request), checkedId(fieldOf(body, 'userId'), 'userId')),
    /** Undefined: a new one. */
    sessionId: checkedId(fieldOf(body, 'sessionId'), 'sessionId'),
    message: checkedMessage(fieldOf(body, 'message'), 'message'),
    metadata: checkedMetadata(fieldOf(body, 'metadata')),
  }
}

/** A name or an id in a path or a query. */
export const queryText = (description: string) =>
  Type.String({ ...withoutNul, minLength: 1, maxLength: 2 * idLengthMax, description })

export const inputRequest = Type.Object(
  {
    message: absentOr(Type.String({ description: 'A text, in place of parts.', examples: ['Yes, please.'] })),
    parts: absentOr(content.properties.parts),
  },
  {
    title: 'InputRequest',
    description:
      'Either `message` or `parts`: text, or a `functionResponse` with the id of a call that asks.',
  },
)

/** Throws AppError `validation_failed`, `payload_too_large`. */
export function readInputRequest({ body }: FastifyRequest): Content {
  const { message, parts } = body as { message?: string | null; parts?: Content['parts'] | null }
  if ((message ?? null) === null && (parts ?? null) === null) throw faulty('parts', 'is required')
  if (message && parts) throw faulty('message', 'left out where there are parts')
  if (!parts) return checkedMessage(message as string, 'message')
  return checkedParts(parts)
}

/** The `parts` of a body. Throws AppError `validation_failed`, `payload_too_large`. */
export function checkedParts(parts: GivenParts): Content {
  refuseNul(parts, 'parts')
  return { role: 'user', parts: checkParts(parts, 'parts') }
}
