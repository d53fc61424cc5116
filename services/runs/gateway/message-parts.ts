/** The parts of a message: text, bytes, files elsewhere and responses of functions, as ADK has them. Nodes get them as they are. */

import { Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import type { Part } from '../state/types.ts'

/** Size of a message's texts, in UTF-8, with the rest of its parts but bytes. */
export const messageBytesMax = 32 * 1024
/** Size of the bytes in a message, decoded. */
export const inlineBytesMax = 1024 * 1024
export const partsMax = 1_000

/** By their names in camelCase: what a part may be. */
const kinds = ['text', 'inlineData', 'fileData', 'functionResponse'] as const
type Kind = (typeof kinds)[number]
/** Kinds of ADK that agents send, and nobody sends to them. */
const kindsOfAgents = ['functionCall', 'executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse']

const described = (description: string) => Type.Optional(Type.String({ description }))

/** For the description alone: `checkParts` words the faults. */
export const part = Type.Object(
  {
    text: Type.Optional(Type.String({ examples: ['What do we know about the relay?'] })),
    inlineData: Type.Optional(
      Type.Object(
        {
          mimeType: Type.String({ examples: ['image/png'] }),
          data: Type.String({ description: 'Base64.' }),
          displayName: described('For example the name of a file.'),
        },
        { title: 'InlineData' },
      ),
    ),
    fileData: Type.Optional(
      Type.Object(
        {
          fileUri: Type.String({ examples: ['gs://reports/relay.pdf'] }),
          mimeType: described('Of the file.'),
          displayName: described('For example the name of the file.'),
        },
        { title: 'FileData', description: 'A file that the agent reads by itself.' },
      ),
    ),
    functionResponse: Type.Optional(
      Type.Object(
        {
          id: described('Of the call that it answers.'),
          name: Type.String({ examples: ['adk_request_confirmation'] }),
          response: Type.Record(Type.String(), Type.Any()),
        },
        { title: 'FunctionResponse' },
      ),
    ),
  },
  {
    title: 'Part',
    description: 'One of text, inlineData, fileData and functionResponse, in camelCase or snake_case.',
  },
)

/** Parts as they are sent. */
export type GivenParts = readonly Record<string, unknown>[]

/**
 * Throws AppError `validation_failed` for parts that are none of these kinds, or say nothing; `payload_too_large` for too
 * much of them.
 */
export function checkParts(parts: GivenParts, name: string, owner = name): Part[] {
  let saysSomething = false
  let bytes = 0
  let inlineBytes = 0
  parts.forEach((given, n) => {
    const at = `${name}/${n}`
    const { kind, key } = kindOf(given, at)
    const value = given[key]
    const { size, rest } = checks[kind](value, `${at}/${key}`)
    saysSomething ||= kind !== 'text' || (value as string).trim() !== ''
    inlineBytes += size
    bytes += kind === 'text' ? Buffer.byteLength(value as string) : Buffer.byteLength(JSON.stringify(rest))
    const { [key]: _, ...others } = given
    if (Object.keys(others).length > 0) bytes += Buffer.byteLength(JSON.stringify(others))
  })
  if (!saysSomething) throw faulty(owner, `at least one part with ${listOf(kinds)}`)
  if (inlineBytes > inlineBytesMax) {
    throw new AppError(
      'payload_too_large',
      `The inlineData of a message has at most ${inlineBytesMax} bytes.`,
    )
  }
  if (bytes > messageBytesMax) {
    const message = `A message has at most ${messageBytesMax} bytes, besides those of its inlineData.`
    throw new AppError('payload_too_large', message)
  }
  return parts as Part[]
}

/** What the part is, and the name under which it says so. ADK's clients send null for what they leave out. */
function kindOf(given: Record<string, unknown>, at: string): { kind: Kind; key: string } {
  const found = [...kinds, ...kindsOfAgents].flatMap((kind) =>
    [...new Set([kind, snakeOf(kind)])].filter((key) => isThere(given[key])).map((key) => ({ kind, key })),
  )
  const [first, second] = found
  if (first && second) throw faulty(at, `one of ${listOf(found.map(({ key }) => key))}, in a part of its own`)
  const kind = kinds.find((one) => one === first?.kind)
  if (!first || !kind) throw faulty(at, `must be a part with ${listOf(kinds)}`)
  return { kind, key: first.key }
}

interface Checked {
  /** Its bytes, decoded. */
  size: number
  /** All but its bytes. */
  rest: unknown
}

const checks: Record<Kind, (value: unknown, at: string) => Checked> = {
  text(value, at) {
    if (typeof value !== 'string') throw faulty(at, 'must be a text')
    return { size: 0, rest: value }
  },
  inlineData(value, at) {
    const blob = objectAt(value, at)
    requireText(blob, 'mimeType', at)
    optionalText(blob, 'displayName', at)
    const { data, ...rest } = blob
    if (typeof data !== 'string') throw faulty(`${at}/data`, 'is required: the bytes as base64')
    return { size: decodedSize(data, `${at}/data`), rest }
  },
  fileData(value, at) {
    const file = objectAt(value, at)
    requireText(file, 'fileUri', at)
    optionalText(file, 'mimeType', at)
    optionalText(file, 'displayName', at)
    return { size: 0, rest: file }
  },
  functionResponse(value, at) {
    const answer = objectAt(value, at)
    requireText(answer, 'name', at)
    optionalText(answer, 'id', at)
    objectAt(answer.response, `${at}/response`)
    return { size: 0, rest: answer }
  },
}

const base64 = /^(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}$/

/** Takes the alphabet of URLs, too, with or without padding. Throws AppError `validation_failed` for text that is no base64. */
function decodedSize(data: string, at: string): number {
  const { length } = data.endsWith('==') ? data.slice(0, -2) : data.endsWith('=') ? data.slice(0, -1) : data
  const isPadded = length < data.length
  if (!base64.test(data) || length % 4 === 1 || (isPadded && data.length % 4 !== 0)) {
    throw faulty(at, 'must be base64')
  }
  return Math.floor((length * 3) / 4)
}

function objectAt(value: unknown, at: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw faulty(at, 'must be an object')
}

function requireText(object: Record<string, unknown>, field: string, at: string): void {
  const value = object[field] ?? object[snakeOf(field)]
  if (typeof value !== 'string' || value === '') throw faulty(`${at}/${field}`, 'is required: a text')
}

function optionalText(object: Record<string, unknown>, field: string, at: string): void {
  const value = object[field] ?? object[snakeOf(field)] ?? ''
  if (typeof value !== 'string') throw faulty(`${at}/${field}`, 'must be a text')
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null
}

function listOf(names: readonly string[]): string {
  return `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

export function snakeOf(name: string): string {
  return name.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`)
}

/** The fault of one field, by its path without the first slash. */
export function faulty(name: string, message: string): AppError {
  return validationFailed([{ path: `/${name}`, message }])
}
