/** Checks the JSON text of an event and adds time and idempotency key; everything else in the text stays as it was sent. */

import { AppError, type FieldError } from '#lib/errors.ts'
import { compileCheck, parseJson, validationFailed } from '#runtime/http/validation.ts'
import { containsSecret } from '#services/access/secrets/redact.ts'
import {
  anyEventSchema,
  eventSchema,
  type FiredEvent,
  firedEvents,
  idempotencyKeyOf,
  isPlatformEvent,
} from '../../event.ts'

export interface PreparedEvent {
  event: string
  agent: string
  task_id: string
  idempotency_key: string
  /** As it was sent, numbers and spacing included, with time and idempotency key in it. */
  body: Buffer
}

/** Faults of events of other topics go to dead letters, where no secret may be. */
const checkFired = compileCheck(eventSchema, { showsValues: false })
const checkAny = compileCheck(anyEventSchema, { showsValues: false })

/**
 * Throws AppError `invalid_json` or `validation_failed` with the paths of the faults. `byPlatform`: the event may be one that the
 * platform alone fires. Does not look for secrets: `refuseSecrets` does.
 */
export function prepareEvent(bytes: Buffer, { byPlatform = false } = {}): PreparedEvent {
  const value = parseJson(bytes)
  if (!byPlatform && isPlatformEvent((value as Partial<FiredEvent> | null)?.event)) {
    throw validationFailed([platformFault])
  }
  const faults = byPlatform ? checkAny(value) : checkFired(value)
  if (faults) throw validationFailed(faults)
  const event = value as FiredEvent
  const text = bytes.toString('utf8')
  const members = topLevelMembers(text)
  const twice = members.find(({ name }, n) => members.findIndex((other) => other.name === name) !== n)
  // Receivers would not agree on which of the two counts.
  if (twice) throw validationFailed([{ path: `/${twice.name}`, message: 'appears twice' }])
  const key = idempotencyKeyOf(event)
  if (event.idempotency_key !== undefined && event.idempotency_key !== key) throw validationFailed([keyFault])
  const { event: kind, agent, task_id } = event
  const made = {
    ...(event.ts === undefined ? { ts: Math.floor(Date.now() / 1_000) } : {}),
    ...(event.idempotency_key === undefined ? { idempotency_key: key } : {}),
  }
  const isWhole = Object.keys(made).length === 0
  const body = isWhole ? bytes : withMembers(text, members.at(-1)!.end, made)
  return { event: kind, agent, task_id, idempotency_key: key, body }
}

const platformFault: FieldError = {
  path: '/event',
  message: `is fired by the platform alone, when a run waits for an answer; fire one of ${firedEvents.join(', ')}`,
}

const keyFault: FieldError = {
  path: '/idempotency_key',
  message: '<agent>-<task_id>-<event> of this event; leave it out to have it made',
}

/** `end`: behind the last member of the text. */
function withMembers(text: string, end: number, made: object): Buffer {
  const more = Object.entries(made).map(
    ([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`,
  )
  return Buffer.from(`${text.slice(0, end)}${more.join('')}${text.slice(end)}`)
}

/** Throws AppError `secret_in_payload` that names the field, never what it holds. */
export function refuseSecrets(event: Pick<PreparedEvent, 'body'>, secrets: readonly string[]): void {
  const text = event.body.toString('utf8')
  if (!containsSecret(text, secrets)) return
  const field = topLevelMembers(text).find(({ start, end }) =>
    containsSecret(text.slice(start, end), secrets),
  )
  const path = field && !containsSecret(field.name, secrets) ? `/${field.name}` : ''
  throw new AppError(
    'secret_in_payload',
    'Take keys, tokens and private keys out of the event: it would be sent to every target.',
    { errors: [{ path, message: 'holds a secret of the platform or of its targets file' }] },
  )
}

interface Member {
  name: string
  /** Offset of the name's opening quote. */
  start: number
  /** Offset behind the value's last character. */
  end: number
}

/** `text` must be valid JSON with an object at the top. A name that occurs twice gives two members. */
export function topLevelMembers(text: string): Member[] {
  const members: Member[] = []
  for (let at = nextQuoteOrEnd(text, 0); text[at] === '"'; at = nextQuoteOrEnd(text, members.at(-1)!.end)) {
    const nameEnd = stringEnd(text, at)
    const name = JSON.parse(text.slice(at, nameEnd)) as string
    const colon = text.indexOf(':', nameEnd)
    members.push({ name, start: at, end: valueEnd(text, colon + 1) })
  }
  return members
}

/** Between members there are only spaces, commas and braces. */
function nextQuoteOrEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '"') return at
  return text.length
}

/** From the opening quote at `at` to the offset behind the closing one. */
function stringEnd(text: string, at: number): number {
  for (let i = at + 1; ; i++) {
    const character = text[i]
    if (character === '\\') i++
    else if (character === '"' || character === undefined) return i + 1
  }
}

function valueEnd(text: string, from: number): number {
  let depth = 0
  for (let i = from; i < text.length; i++) {
    const character = text[i]
    if (character === '"') {
      i = stringEnd(text, i) - 1
      if (depth === 0) return i + 1
    } else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      if (depth === 0) return trimmedEnd(text, i)
      if (--depth === 0) return i + 1
    } else if (character === ',' && depth === 0) return trimmedEnd(text, i)
  }
  return text.length
}

function trimmedEnd(text: string, end: number): number {
  let i = end
  while (' \t\r\n'.includes(text[i - 1] as string)) i--
  return i
}
