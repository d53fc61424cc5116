/** The one thread that writes the file of the log; between writes it cleans up. */

import { emit, ownData, serveWorker, Transferred } from '#lib/worker-rpc.ts'
import type { TopicSpec } from '../port.ts'
import { createCleaner } from './cleaner.ts'
import { createWriteProbe, freeBytesBeside, openForWriting } from './log-file.ts'
import { createClock } from './record-block.ts'
import { createWriter, type WriteBatch, type Written } from './writer.ts'

export interface WriterData {
  file: string
  /** Between two rounds of the cleaner. */
  sweepEveryMs: number
}

/** What expired is gone for good: it waits longer for a wall clock that jumped. */
const expiryBelievesAfterMs = 3_600_000

const { file, sweepEveryMs } = ownData<WriterData>()
let open: ReturnType<typeof openParts> | undefined

function openParts() {
  const db = openForWriting(file)
  const writer = createWriter(db)
  const loaded = writer.load()
  // What expires is counted from the newest record on: a wall clock that is ahead when the log is opened is no better
  // than one that jumps later.
  const clock = createClock({
    startAt: Math.min(loaded.newestAt || Number.POSITIVE_INFINITY, Date.now()),
    believedAfterMs: expiryBelievesAfterMs,
  })
  const cleaner = createCleaner(db, writer, { clock, trimmed: (id, start) => emit('trimmed', { id, start }) })
  return { db, writer, cleaner, loaded, probe: createWriteProbe(db, freeBytesBeside(file)) }
}

/** A failed round is tried again with the next one; its message is sent to the main thread. */
async function sweepForEver(): Promise<void> {
  while (open) {
    try {
      await open.cleaner.sweep()
    } catch (error) {
      if (open) emit('fault', error instanceof Error ? error.message : String(error))
    }
    await new Promise((resolve) => setTimeout(resolve, sweepEveryMs))
  }
}

function parts() {
  if (!open) throw new Error('the file is not open')
  return open
}

const handlers = {
  open() {
    open = openParts()
    void sweepForEver()
    return open.loaded
  },
  takeOver: (name: string) => parts().writer.takeOver(name),
  /** The block comes here and goes back without being copied. */
  write(batch: WriteBatch) {
    const { writer, probe } = parts()
    const { block } = batch
    const firsts = probe.watch(block.byteLength, () => writer.write(batch))
    return new Transferred<Written>({ firsts, block }, [block])
  },
  createTopic: (spec: TopicSpec) => parts().writer.createTopic(spec),
  addPartitions: (spec: TopicSpec, from: number, total: number) =>
    parts().writer.addPartitions(spec, from, total),
  deleteTopic: (name: string) => parts().writer.deleteTopic(name),
  trim: (id: number, before: number) => parts().writer.trim(id, before),
  deleteGroup: (group: string) => parts().writer.deleteGroup(group),
  compactNow: (topic: string) => parts().cleaner.compactNow(topic),
  sweepNow: () => parts().cleaner.sweep(),
  ping() {
    const { db, probe } = parts()
    probe.check()
    return db.prepare('select 1').get() !== undefined
  },
  /** Closing writes the last checkpoint and removes the WAL. */
  close() {
    open?.db.close()
    open = undefined
  },
}

export type WriterHandlers = typeof handlers

serveWorker(handlers)
