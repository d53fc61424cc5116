/** The service that applies vectors.commands to the vector engine and publishes how far it is. */

import type { Logger } from 'pino'
import { type Static, Type } from 'typebox'
import type { VectorStore } from '#engines/vectors/port.ts'
import { createWakeup } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { defineWorker, type ServiceContext } from '#runtime/start/service.ts'
import { deleteLate } from '../collections/leave-out.ts'
import { makePayloadIndexes, payloadIndexTypes, readPayloadIndexes } from '../collections/payload-indexes.ts'
import { startPurging } from '../collections/purge.ts'
import { openCollections } from '../collections/registry.ts'
import { warnOfOthers } from '../read/embedders.ts'
import { createBased } from './based-records.ts'
import type { IndexWriter } from './generation-writer.ts'
import { createHandler, joinApplies } from './handler.ts'
import { vectorsIndex } from './rebuild.ts'
import { startSweeping } from './sweep.ts'
import { startIndexWriter } from './worker.ts'

const hourMs = 3_600_000
const firstAfterMs = 60_000

/** Several processes may do it: each run forgets old deletions only. */
export function startForgetting(
  vectors: Pick<VectorStore, 'forgetDeletions'>,
  afterHours: number,
  log: Logger,
): Closeable {
  return startRepeating({ what: 'forgetting deletions', everyMs: hourMs, firstAfterMs, log }, () =>
    vectors.forgetDeletions(afterHours * hourMs),
  )
}

const batchRecordsMax = 500
const batchBytesMax = 8 * 1024 * 1024

const config = Type.Object({
  INDEX_TOMBSTONE_H: Type.Integer({
    minimum: 1,
    maximum: 8_760,
    default: 24,
    description:
      'hours that the vector engine remembers a deletion, so that no older write brings the point back',
  }),
  PAYLOAD_INDEXES: Type.Optional(
    Type.Refine(
      Type.String({
        description: `indexes of payload keys in Qdrant, for filters in large collections: \`posts/priority:number, knowledgebase/due:time\`; types are ${payloadIndexTypes.join(', ')}`,
      }),
      (text) => readPayloadIndexes(text) !== undefined,
      () =>
        `has the form collection/key:type, separated by commas; type is one of ${payloadIndexTypes.join(', ')}`,
    ),
  ),
})

type Settings = Static<typeof config>

export const vectorWriter = defineWorker({
  name: 'vector-writer',
  purpose: 'applies vectors.commands to the vector engine, batch by batch, and reports how far it is',
  needs: ['eventLog', 'vectors', 'relational', 'embedder'],
  config,
  start: startVectorWriter,
})

async function startVectorWriter(
  context: ServiceContext<'eventLog' | 'vectors' | 'relational' | 'embedder', Settings>,
): Promise<Closeable> {
  const { vectors } = context.engines
  const { publisher, log } = context
  const deleted = createWakeup()
  const collections = await openCollections({
    ...context.engines,
    publisher,
    log,
    changed: () => deleted.wake(),
  })
  const writer: IndexWriter = {
    index: vectorsIndex,
    engine: vectors,
    batchRecordsMax,
    batchBytesMax,
    callTimeoutMs: deadlines.handler.vectorWriterMs,
    openGeneration: ({ generation, epoch, calls, stuck }) => ({
      handle: createHandler({
        applyPoints: joinApplies(vectors.apply.bind(vectors), generation, {
          driver: vectors.driver,
          tracing: context.tracing,
        }),
        epoch,
        calls,
        stuck,
        collections,
        based: createBased(vectors, publisher, generation),
        leftOut: (messages, standings) => deleteLate(context, messages, standings),
      }),
    }),
  }
  const worker = await startIndexWriter(context, writer)
  const { embedder } = context.engines
  const looking = startRepeating(
    { what: 'counting points of other embedders', everyMs: 24 * hourMs, firstAfterMs, log: context.log },
    () => warnOfOthers(vectors, embedder.space, context.log),
  )
  const forgetting = startForgetting(vectors, context.config.INDEX_TOMBSTONE_H, context.log)
  const purging = startPurging(context, deleted)
  const sweeping = startSweeping(context)
  const named = readPayloadIndexes(context.config.PAYLOAD_INDEXES ?? '') ?? []
  const indexing = startRepeating(
    { what: 'indexes of payload keys', everyMs: 24 * hourMs, firstAfterMs, log },
    () => makePayloadIndexes(context.engines.relational, vectors, { named, collections }),
  )
  return {
    async close() {
      await Promise.all([
        worker.close(),
        forgetting.close(),
        looking.close(),
        purging.close(),
        sweeping.close(),
        indexing.close(),
      ])
      await collections.close()
    },
  }
}
