/** The service that applies vectors.commands to the vector engine and publishes how far it is. */

import { Type } from 'typebox'
import { deadlines } from '#lib/deadlines.ts'
import type { Closeable } from '#lib/resource.ts'
import { defineWorker, type ServiceContext } from '#runtime/service.ts'
import type { IndexWriter } from '../index/generation-writer.ts'
import { vectorsIndex } from '../index/indexes.ts'
import { startIndexWriter } from '../index/worker.ts'
import { createHandler } from './handler.ts'
import { joinApplies } from './joined-apply.ts'

const batchRecordsMax = 500
const batchBytesMax = 8 * 1024 * 1024
const callTimeoutMs = deadlines.handler.vectorWriterMs

export const vectorWriter = defineWorker({
  name: 'vector-writer',
  purpose: 'applies vectors.commands to the vector engine, batch by batch, and reports how far it is',
  needs: ['eventLog', 'vectors', 'relational'],
  config: Type.Object({}),
  start: startVectorWriter,
})

function startVectorWriter(
  context: ServiceContext<'eventLog' | 'vectors' | 'relational', unknown>,
): Promise<Closeable> {
  const { vectors } = context.engines
  const writer: IndexWriter = {
    index: vectorsIndex,
    engine: vectors,
    batchRecordsMax,
    batchBytesMax,
    callTimeoutMs,
    openGeneration: (generation) => ({
      handle: createHandler(joinApplies(vectors.apply.bind(vectors), generation)),
    }),
  }
  return startIndexWriter(context, writer)
}
