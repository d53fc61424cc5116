/** The note-indexer: makes of each note's newest state a point of fleet_notes, and deletes that of an archived one. */

import { Type } from 'typebox'
import type { Embedder } from '#engines/embedder/port.ts'
import { hubNoteId } from '#engines/vectors/collections.ts'
import type { Payload } from '#engines/vectors/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError, isFenced, isUnavailable } from '#lib/errors.ts'
import { type BatchOutcome, done, split, unavailable } from '#lib/outcome.ts'
import type { Closeable } from '#lib/resource.ts'
import { type CallContext, startBatchConsumer } from '#runtime/consume/consumer.ts'
import { headerNames, type Message, type OutgoingMessage } from '#runtime/publish/messages.ts'
import { createPartitionWriters, type PartitionWriters } from '#runtime/publish/publisher.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import type { HubRecord, VectorUpsert } from '#schemas/types.ts'
import { hubRecords, vectorsCommands } from '#topics/catalog.ts'
import { readVersions } from '../notes/notes.ts'

const batchRecordsMax = 100
const batchBytesMax = 1024 * 1024
const callTimeoutMs = deadlines.handler.noteIndexerMs
const embedderPingMs = 5_000

export const noteIndexer = defineWorker({
  name: 'note-indexer',
  purpose: 'makes the notes of the hub searchable in fleet_notes',
  needs: ['eventLog', 'relational', 'embedder'],
  config: Type.Object({}),
  start: startNoteIndexer,
})

async function startNoteIndexer(
  context: ServiceContext<'eventLog' | 'relational' | 'embedder', unknown>,
): Promise<Closeable> {
  const { engines, codec, publisher, log, metrics } = context
  const { eventLog, relational, embedder } = engines
  const writers = createPartitionWriters(publisher, 'note-indexer')
  const consumer = await startBatchConsumer(
    { eventLog, codec, publisher, log, metrics, tracing: context.tracing },
    {
      group: 'note-indexer',
      topic: hubRecords,
      batchRecordsMax,
      batchBytesMax,
      callTimeoutMs,
      retriesMax: 5,
      backoff: { baseMs: 200, maxMs: 10_000 },
      onAssigned: async (gained) => {
        await writers.takeOver(gained)
        return undefined
      },
      handle: createHandler({ embedder, writers, versionsOf: (ids) => readVersions(relational, ids) }),
      probe(engine) {
        if (engine === 'embedder') return embedder.ping(embedderPingMs)
        return engine === 'database' ? relational.ping() : eventLog.ping()
      },
    },
  )
  return {
    async close() {
      await consumer.close()
      await writers.close()
    },
  }
}

/** Characters of a note that its vector is made of: more than models read, and little enough for one turn of the event loop. */
export const embeddedLengthMax = 16_384
const pingMs = 2_000

type PointMessage = OutgoingMessage<{ collection: string; id: string }, VectorUpsert>
type NoteMessage = Message<HubRecord> & { value: HubRecord }

interface HandlerParts {
  embedder: Pick<Embedder, 'space' | 'embed' | 'ping'>
  writers: Pick<PartitionWriters, 'of'>
  /** The versions of the notes' rows by their ids; those that are gone are absent. */
  versionsOf(ids: number[]): Promise<ReadonlyMap<number, number>>
}

export function createHandler({ embedder, writers, versionsOf }: HandlerParts) {
  return async function indexNotes(
    messages: Message<HubRecord>[],
    context: Pick<CallContext, 'signal' | 'partition'>,
  ): Promise<BatchOutcome[]> {
    const all = (outcome: BatchOutcome) => messages.map(() => outcome)
    try {
      const notes = await newestOf(messages, versionsOf)
      const points = await pointsOf(embedder, notes)
      context.signal.throwIfAborted()
      if (points.length > 0) await writers.of(context.partition).publish(vectorsCommands, points)
      return all(done)
    } catch (error) {
      if (await refusesTexts(embedder, error)) return all(split(describeError(error)))
      if (!isUnavailable(error) && !isFenced(error) && !isRefusal(error)) throw error
      return all(unavailable(engineOf(error), describeError(error)))
    }
  }
}

/**
 * The last record of each note, unless its row is newer: then a newer record is on its way. So no older state is published
 * behind a newer one, also when records are redelivered.
 */
async function newestOf(
  messages: Message<HubRecord>[],
  versionsOf: HandlerParts['versionsOf'],
): Promise<NoteMessage[]> {
  const newest = new Map<number, NoteMessage>()
  for (const message of messages) {
    if (message.value?.kind !== 'note') continue
    const { id, version } = message.value
    const known = newest.get(id)
    if (!known || known.value.version <= version) newest.set(id, message as NoteMessage)
  }
  if (newest.size === 0) return []
  const present = await versionsOf([...newest.keys()])
  return [...newest.values()].filter(({ value }) => (present.get(value.id) ?? 0) <= value.version)
}

async function pointsOf(
  embedder: Pick<Embedder, 'space' | 'embed'>,
  notes: readonly NoteMessage[],
): Promise<PointMessage[]> {
  const shown = notes.filter(({ value }) => value.status !== 'archived')
  const vectors = await embedder.embed(shown.map(({ value }) => textOf(value)))
  const vectorOf = new Map(shown.map((note, n) => [note, vectors[n]!]))
  return notes.map((note) => {
    const vector = vectorOf.get(note)
    return {
      key: { collection: 'fleet_notes', id: hubNoteId(note.value.id) },
      value: vector
        ? {
            vector: Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength),
            payload: JSON.stringify(payloadOf(note.value)),
            embedder: embedder.space,
            making: null,
            expires_at: null,
          }
        : null,
      headers: keptHeaders(note.headers),
    }
  })
}

function textOf({ title, text }: HubRecord): string {
  return `${title}\n\n${text}`.slice(0, embeddedLengthMax).toWellFormed()
}

function payloadOf({ title, status, priority, author, updated_at, thread_id }: HubRecord): Payload {
  return {
    title,
    status,
    tags: ['note', priority, author],
    updated_at: new Date(updated_at).toISOString(),
    thread_id,
  }
}

/** Who changed the note, and the request in which they did. */
function keptHeaders(headers: Record<string, string>): Record<string, string> {
  const names = [headerNames.agent, headerNames.requestId, headerNames.traceparent]
  return Object.fromEntries(
    names.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
  )
}

/** True when the embedder works, but not on these texts: then the one that it refuses is looked for. */
async function refusesTexts(embedder: Pick<Embedder, 'ping'>, error: unknown): Promise<boolean> {
  if (!isRefusal(error)) return false
  return embedder.ping(pingMs).then(
    () => true,
    () => false,
  )
}

/** What an embedding endpoint answers to a wrong key or model, and to a text that it does not take. */
function isRefusal(error: unknown): boolean {
  return error instanceof AppError && error.code === 'invalid_configuration'
}

/** Which engine has to come back, for the probe. */
function engineOf(error: unknown): 'embedder' | 'database' | 'event-log' {
  const code = error instanceof AppError ? error.code : ''
  if (code === 'embedder_unavailable' || code === 'invalid_configuration') return 'embedder'
  return code === 'relational_engine_unavailable' ? 'database' : 'event-log'
}
