/** Makes of what a node sends the events that clients see: one dialect, our ids, bounded in size. */

import { randomUUID } from 'node:crypto'
import { isTooDeep } from '#runtime/http/validation.ts'
import { parseExact } from '#stidx/exact-json.ts'
import type { Content, Part, RunEvent } from '../../state/types.ts'
import { NodeFault } from '../nodes.ts'

/** Size of one event, as JSON. */
export const eventBytesMax = 512 * 1024
const idLengthMax = 128
const nodeIdLengthMax = 256
const greatestSeconds = 1e11
/** What a Date can have. */
const greatestMs = 8.64e15

export interface EventOwner {
  runId: string
  codename: string
}

/** Throws NodeFault for an error frame, and for a frame that is not an event. */
export function eventOf(data: string, owner: EventOwner, clean: (text: string) => string): RunEvent {
  let given: unknown
  try {
    given = parseExact(data)
  } catch {
    throw new NodeFault('agent_error', 'The node sent something that is no event.')
  }
  if (!isObject(given)) throw new NodeFault('agent_error', 'The node sent something that is no event.')
  if (isTooDeep(data, given))
    throw new NodeFault('agent_error', 'The node sent an event that is nested too deep.')
  if ('error' in given && !('id' in given) && !('content' in given)) {
    throw new NodeFault('agent_error', clean(messageOf(given.error)))
  }
  const event = normalised(given, owner, clean)
  return withinSize(event, data.length)
}

/** In place of an event that was too large to be read. */
export function cutEvent(bytes: number, { runId, codename }: EventOwner): RunEvent {
  return {
    content: { role: 'model', parts: [{ text: cutNote(bytes) }] },
    customMetadata: { cut: { bytes } },
    ...ownFields({}, { runId, codename }),
  }
}

/** The whole of pieces that the node did not send as a whole. */
export function joinedEvent(text: string, owner: EventOwner): RunEvent {
  const event: RunEvent = {
    content: { role: 'model', parts: [{ text }] },
    customMetadata: { joined: true },
    ...ownFields({}, owner),
  }
  return withinSize(event, text.length)
}

function normalised(
  given: Record<string, unknown>,
  owner: EventOwner,
  clean: (text: string) => string,
): RunEvent {
  const { content, customMetadata, invocationId, partial, errorMessage, errorCode, ...rest } = given
  const nodeInvocationId =
    typeof invocationId === 'string' ? invocationId.slice(0, nodeIdLengthMax) : undefined
  const metadata = {
    ...(isObject(customMetadata) ? customMetadata : {}),
    ...(nodeInvocationId === undefined ? {} : { nodeInvocationId }),
  }
  return {
    ...(isContent(content) ? { content } : {}),
    ...(partial === true ? { partial } : {}),
    ...(errorCode === undefined || errorCode === null ? {} : { errorCode: String(errorCode) }),
    ...(typeof errorMessage === 'string' ? { errorMessage: clean(errorMessage) } : {}),
    ...rest,
    ...(Object.keys(metadata).length > 0 ? { customMetadata: metadata } : {}),
    ...ownFields(given, owner),
  }
}

function ownFields(
  { id, timestamp }: Record<string, unknown>,
  { runId, codename }: EventOwner,
): Pick<RunEvent, 'id' | 'author' | 'invocationId' | 'timestamp'> {
  return {
    invocationId: runId,
    author: codename,
    id: typeof id === 'string' && id !== '' && id.length <= idLengthMax ? id : randomUUID(),
    timestamp: secondsOf(timestamp),
  }
}

/** Python's ADK has seconds and TypeScript's milliseconds. */
function secondsOf(timestamp: unknown): number {
  if (typeof timestamp !== 'number' || !(timestamp > 0 && timestamp <= greatestMs)) return Date.now() / 1000
  return timestamp > greatestSeconds ? timestamp / 1000 : timestamp
}

/** An event that is too large keeps the beginning of its text, and what it means for the run. */
function withinSize(event: RunEvent, length: number): RunEvent {
  // A UTF-16 unit is at most three bytes, so that most events need not be counted.
  if (length * 3 < eventBytesMax) return event
  const bytes = Buffer.byteLength(JSON.stringify(event))
  if (bytes <= eventBytesMax) return event
  const { id, author, invocationId, timestamp, content, partial, turnComplete, errorCode, errorMessage } =
    event
  const small: RunEvent = {
    ...(partial ? { partial } : {}),
    ...(turnComplete ? { turnComplete } : {}),
    ...(errorCode ? { errorCode: errorCode.slice(0, idLengthMax) } : {}),
    ...(errorMessage ? { errorMessage } : {}),
    customMetadata: {
      ...(event.customMetadata?.nodeInvocationId
        ? { nodeInvocationId: event.customMetadata.nodeInvocationId }
        : {}),
      cut: { bytes },
    },
    id,
    author,
    invocationId,
    timestamp,
  }
  const text = textWithin(textOf(content), eventBytesMax - 4_096)
  return { content: { role: 'model', parts: [{ text: `${text}\n\n${cutNote(bytes)}` }] }, ...small }
}

function cutNote(bytes: number): string {
  return `[cut: the event had ${bytes} bytes, ${eventBytesMax} are kept]`
}

/** As much of the text as has this many bytes as JSON. */
function textWithin(text: string, bytesMax: number): string {
  let kept = text.slice(0, bytesMax)
  for (let bytes = jsonBytes(kept); bytes > bytesMax; bytes = jsonBytes(kept)) {
    kept = kept.slice(0, Math.floor((kept.length * bytesMax) / bytes) - 1)
  }
  return kept.toWellFormed()
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text))
}

function textOf(content: Content | undefined): string {
  return (content?.parts ?? []).map(({ text }) => text ?? '').join('')
}

function isContent(content: unknown): content is Content {
  if (!isObject(content) || !Array.isArray(content.parts)) return false
  return content.parts.every((part: unknown): part is Part => {
    return isObject(part) && (part.text === undefined || typeof part.text === 'string')
  })
}

function messageOf(error: unknown): string {
  if (typeof error === 'string') return error
  if (isObject(error) && typeof error.message === 'string') return error.message
  return 'The agent failed.'
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
