/**
 * Audit notes in fleet_notes: their ids, which the platform alone writes, and how batches of audit.events become notes, of each
 * event its last state, published to vectors.commands.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Embedder } from '#engines/embedder/port.ts'
import type { Payload } from '#engines/vectors/port.ts'
import { AppError, isFenced, isUnavailable } from '#lib/errors.ts'
import { done, type Outcome, unavailable } from '#lib/outcome.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import { headerNames, type Message, type OutgoingMessage, type Publisher } from '#runtime/publish/messages.ts'
import type { PartitionWriters } from '#runtime/publish/publisher.ts'
import type { Pace } from '#runtime/repeat.ts'
import type { AuditEvent, VectorUpsert } from '#schemas/types.ts'
import { vectorsCommands } from '#topics/catalog.ts'

/** Notes that are later than this are not held back any longer, however busy the platform is. */
const lateMs = 300_000
/** Notes that are embedded in one turn of the event loop: a few milliseconds of work. */
const embeddedAtOnce = 25

type PointKey = { collection: string; id: string }

export function createHandler(parts: {
  embedder: Embedder
  writers: Pick<PartitionWriters, 'of'>
  pace: Pace
}) {
  return async function writeAuditNotes(
    messages: Message<AuditEvent>[],
    context: Pick<CallContext, 'signal' | 'partition'>,
  ): Promise<Outcome[]> {
    const events = lastStates(messages)
    if (events.length === 0) return messages.map(() => done)
    try {
      if (Date.now() - messages[0]!.timestamp < lateMs) await parts.pace.take(events.length, context.signal)
      context.signal.throwIfAborted()
      await publishNotes(parts.embedder, parts.writers.of(context.partition), events)
    } catch (error) {
      if (!isUnavailable(error) && !isFenced(error)) throw error
      return messages.map(() => unavailable('event-log', error.message))
    }
    return messages.map(() => done)
  }
}

/** The beginning of an event whose end is in the batch, too, is not written. An end is never replaced by a beginning. */
function lastStates(messages: Message<AuditEvent>[]): AuditEvent[] {
  const events = new Map<string, AuditEvent>()
  for (const { value } of messages) {
    if (!value || (value.phase === 'begun' && events.has(value.event_id))) continue
    events.set(value.event_id, value)
  }
  return [...events.values()]
}

async function publishNotes(
  embedder: Embedder,
  publisher: Pick<Publisher, 'publish'>,
  events: AuditEvent[],
): Promise<void> {
  const notes = events.map(noteOf)
  const vectors: Float32Array[] = []
  for (let from = 0; from < notes.length; from += embeddedAtOnce) {
    if (from > 0) await nextTurn()
    const part = notes.slice(from, from + embeddedAtOnce)
    vectors.push(...(await embedder.embed(part.map((note) => note.text))))
  }
  await publisher.publish(
    vectorsCommands,
    notes.map((note, i) => messageOf(note, events[i]!, vectors[i]!)),
  )
}

function messageOf(
  note: AuditNote,
  event: AuditEvent,
  vector: Float32Array,
): OutgoingMessage<PointKey, VectorUpsert> {
  return {
    key: { collection: 'fleet_notes', id: note.id },
    value: {
      vector: Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
      payload: JSON.stringify(note.payload),
    },
    headers: { [headerNames.agent]: event.agent_id, [headerNames.requestId]: event.request_id },
  }
}

interface AuditNote {
  id: string
  /** The text that is embedded. */
  text: string
  payload: Payload
}

/** The same event always gives the same note, so writing it twice changes nothing. */
export function noteOf(event: AuditEvent): AuditNote {
  const title = titleOf(event)
  const payload: Payload = {
    title,
    ...(event.collection === null ? {} : { collection: event.collection }),
    status: event.phase === 'begun' ? 'active' : 'resolved',
    tags: ['auth', 'vector', event.agent_id],
    updated_at: new Date(event.occurred_at).toISOString(),
    operation: event.operation,
    outcome: event.outcome,
    status_code: event.status_code,
    took_ms: event.took_ms,
    request_id: event.request_id,
  }
  if (event.phase === 'summary') payload.count = event.count
  return { id: auditNoteId(event.event_id), text: title, payload }
}

function titleOf(event: AuditEvent): string {
  const where = event.collection === null ? '' : ` on ${event.collection}`
  const times = event.phase === 'summary' ? `${event.count} times ` : ''
  return `${event.operation}${where} by ${event.agent_id}: ${times}${event.outcome}`
}

const auditNotePrefix = 'audit-'
const hubNotePrefix = 'note-'
const reservedPrefixes = [auditNotePrefix, hubNotePrefix]
const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** True for an id of fleet_notes that no caller may write. */
export function isReserved(collection: string, id: string): boolean {
  return collection === 'fleet_notes' && reservedPrefixes.some((prefix) => id.startsWith(prefix))
}

/** The fault of a caller that names such an id. */
export function reservedId(): AppError {
  return new AppError(
    'reserved_id',
    `In fleet_notes ids that begin with ${reservedPrefixes.join(' or ')} are written by the platform alone.`,
  )
}

function auditNoteId(eventId: string): string {
  return `${auditNotePrefix}${eventId}`
}

/** Milliseconds since 1970 from the id `audit-<UUIDv7>`; null for every other id, which is then no audit note. */
export function auditNoteTime(id: string): number | null {
  if (!id.startsWith(auditNotePrefix)) return null
  const uuid = id.slice(auditNotePrefix.length)
  if (!uuidV7.test(uuid)) return null
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
}

/** Point id of a note of the hub, by its number there. */
export function hubNoteId(id: number): string {
  return `${hubNotePrefix}${id}`
}
