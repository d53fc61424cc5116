/**
 * A vector-writer in a process of its own, whose engine is behind HTTP. One that is named `pauses` says so and stops
 * itself when it is about to send the first point with `stand`.
 */

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { PointOperation } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { startGenerationWriter, type WriterContext } from '#services/vectors/write/generation-writer.ts'
import { createHandler, joinApplies } from '#services/vectors/write/handler.ts'
import { openProgressTail } from '#services/vectors/write/progress.ts'
import { vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { jsonCodec, prefixedPublisher } from '#test/support/consumer-wiring.ts'
import { theFourAlone } from '../support/collections.ts'
import { nothingBased } from '../support/nothing-based.ts'

const [brokers, prefix, generation, engineUrl, name] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
]
const log = pino({ level: 'silent' })
const eventLog = await openKafkaLog({ brokers: brokers.split(','), clientId: name, log })
const publisher = prefixedPublisher(eventLog, 1, prefix)
let pauses = name === 'pauses'

async function apply(_: string, operations: PointOperation[]): Promise<void> {
  const body = JSON.stringify({
    name,
    operations: operations.map(({ id, position, ...rest }) => ({
      id,
      position,
      payload: rest.kind === 'upsert' ? rest.payload : null,
    })),
  })
  if (pauses && body.includes('"stand":true')) {
    pauses = false
    process.stdout.write('pauses\n')
    process.kill(process.pid, 'SIGSTOP')
  }
  const response = await fetch(engineUrl, { method: 'POST', body })
  if (!response.ok) throw new AppError('vector_engine_unavailable', 'the engine of the test says no')
}

const engines = { eventLog, relational: { query: async () => ({ rows: [], rowCount: 0 }) } }
const context = { engines, publisher, codec: jsonCodec, log, metrics: new Registry() }
const parts = { index: vectorsIndex, eventLog, codec: jsonCodec, publisher, log }
await startGenerationWriter(
  context as unknown as WriterContext,
  {
    index: vectorsIndex,
    engine: { ping: async () => {} } as never,
    batchRecordsMax: name === 'pauses' ? 500 : 2,
    batchBytesMax: 8e6,
    callTimeoutMs: 1_000,
    openGeneration: ({ epoch, calls, stuck }) => ({
      handle: createHandler({
        applyPoints: joinApplies(apply, 1),
        epoch,
        calls,
        stuck,
        collections: theFourAlone,
        based: nothingBased,
      }),
    }),
  },
  { generation: Number(generation), shown: 'vector-writer', embedder: null },
  await openProgressTail(parts),
)
process.stdout.write('up\n')
