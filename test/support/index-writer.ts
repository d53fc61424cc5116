/** An index writer over a log in memory: a test decides about its partitions, its engine and its commits. */

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { onTestFinished } from 'vitest'
import type { TopicSpec } from '#engines/event-log/port.ts'
import type { OutgoingMessage, Publisher } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import {
  type IndexWriter,
  startGenerationWriter,
  type WriterContext,
} from '#services/vectors/write/generation-writer.ts'
import { openProgressTail } from '#services/vectors/write/progress.ts'
import { vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { jsonCodec, testPublisher } from './consumer-wiring.ts'
import { createMemoryLog, type MemoryLog, type MemoryMember } from './memory-log.ts'

export function topicSpec(name: string): TopicSpec {
  const cleanup = 'compact' as const
  const kept = { retentionMs: null, tombstoneRetentionMs: 1e9 }
  return { name, partitions: 1, cleanup, ...kept, segmentBytes: 1e6, segmentMs: 1e6, recordBytesMax: 1e6 }
}

export interface IndexLog {
  eventLog: MemoryLog
  publisher: Publisher
  /** Starts a writer; it owns nothing until the test gives it the partition. */
  startWriter(writer: Partial<IndexWriter> & Pick<IndexWriter, 'openGeneration'>): Promise<MemoryMember>
  /** Appends points (null deletes) to the one partition; resolves with their offsets. */
  put(points: { id: string; payload: object | null; operation?: string }[]): Promise<number[]>
}

/** `query` answers the statements of the control plane. */
export async function openIndexLog(
  query: (text: string, params: unknown[]) => Promise<{ rows: unknown[] }> = async () => ({ rows: [] }),
): Promise<IndexLog> {
  const eventLog = createMemoryLog()
  for (const name of ['vectors.commands', 'vectors.commands.dead-letters', 'vectors.progress']) {
    await eventLog.createTopic(topicSpec(name))
  }
  await eventLog.setPositions('vector-writer', 'vectors.commands', [{ partition: 0, offset: 0 }])
  const publisher = testPublisher(eventLog, 1)
  const log = pino({ level: 'silent' })
  return {
    eventLog,
    publisher,
    async startWriter(writer) {
      const engines = { eventLog, relational: { query } }
      const context = { engines, publisher, codec: jsonCodec, log, metrics: new Registry() }
      const tail = await openProgressTail({ index: vectorsIndex, eventLog, codec: jsonCodec, publisher, log })
      const usual = { index: vectorsIndex, batchRecordsMax: 500, batchBytesMax: 8e6, callTimeoutMs: 300 }
      const engine = { ping: async () => {} } as IndexWriter['engine']
      const consumer = await startGenerationWriter(
        context as unknown as WriterContext,
        { ...usual, engine, ...writer },
        { generation: 1, shown: 'vector-writer', embedder: null },
        tail,
      )
      onTestFinished(() => consumer.close())
      return eventLog.members.at(-1)!
    },
    async put(points) {
      const messages = points.map(({ id, payload, operation }) => ({
        key: { collection: 'posts', id },
        value: payload && {
          vector: Buffer.alloc(1536 * 4, 0x3f),
          payload: JSON.stringify(payload),
          embedder: null,
          making: null,
          expires_at: null,
        },
        ...(operation ? { headers: { operation } } : {}),
      })) as OutgoingMessage<{ collection: string; id: string }, VectorUpsert>[]
      return (await publisher.publish(vectorsCommands, messages)).map(({ offset }) => offset)
    },
  }
}
