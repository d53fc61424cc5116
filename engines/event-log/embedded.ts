/**
 * The event log of a single process: one SQLite file, a thread that writes it, a thread that reads it, and consumer
 * groups in memory.
 */

import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { openWorker, type WorkerClient } from '#lib/worker-rpc.ts'
import { createGroupCalls, createGroups } from './embedded/groups.ts'
import { logPath, pageBytes } from './embedded/log-file.ts'
import type { ReaderData, ReaderHandlers } from './embedded/reader-thread.ts'
import { createClock } from './embedded/record-block.ts'
import { createTail } from './embedded/tail.ts'
import { createPositions, createTopicCalls, createTopics } from './embedded/topics.ts'
import { createWriteQueue } from './embedded/write-queue.ts'
import { nobody, type Written } from './embedded/writer.ts'
import type { WriterData, WriterHandlers } from './embedded/writer-thread.ts'
import { bounded, logUnavailable } from './faults.ts'
import type { EventLog, NewRecord } from './port.ts'

/** Bytes written to the WAL before a checkpoint copies it into the file. */
const checkpointEveryBytes = 4_194_304
/** What a commit writes in addition to its records: whole pages. */
const pageBytesPerCommit = 2 * pageBytes
const appendTimeoutMs = deadlines.engine.logAppendMs
const pingTimeoutMs = deadlines.engine.pingMs
/** Time for pending writes when the log is closed. */
const settleTimeoutMs = deadlines.engine.logDrainMs
/** Opening reads the ends of all partitions, and what a killed process left in the WAL. */
const openTimeoutMs = deadlines.embedded.openMs
const closeTimeoutMs = deadlines.embedded.closeMs

/** Times of records follow a wall clock that jumped ahead after this long. */
const timesBelieveAfterMs = 600_000

export interface EmbeddedLogOptions {
  /** Holds the file `event-log.sqlite`; made when absent. It has one owner: whoever starts the platform locks it. */
  directory: string
  /** Between two rounds that remove expired and superseded records. */
  sweepEveryMs?: number
  /** Called when a listener threw, and when background work failed (it is tried again). Default: prints to stderr. */
  onFault?: (error: unknown) => void
}

export interface EmbeddedLog extends EventLog {
  readonly driver: 'embedded'
  /** Compacts a topic at once, up to the newest record of each partition. */
  compactNow(topic: string): Promise<void>
  /** Runs a round of the cleaner at once. */
  sweepNow(): Promise<void>
}

/** Opens the log, also one whose process was killed. Throws `invalid_configuration` for a file of a newer layout. */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<EmbeddedLog> {
  const { directory, sweepEveryMs = 5_000, onFault: fault = printFault } = options
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const { writer, reader, loaded, alive } = await openThreads({ file: logPath(directory), sweepEveryMs })
  const write = writer.call
  const { fetch } = reader.call
  const topics = createTopics()
  for (const topic of loaded.topics) topics.add(topic)
  writer.on('trimmed', ({ id, start }: { id: number; start: number }) => topics.trimmed(id, start))
  writer.on('fault', (message: string) => fault(new Error(message)))
  const positions = createPositions(loaded.positions)
  const queue = createWriteQueue({
    write: (batch) => writer.send('write', [batch], [batch.block]) as Promise<Written>,
    wrote: createCheckpointer(reader, fault),
    clock: createClock({
      startAt: Math.max(loaded.newestAt, Date.now()),
      believedAfterMs: timesBelieveAfterMs,
    }),
  })
  const groups = createGroups({ positions, queue, fetch, fault, alive })
  const clientId = randomUUID()
  const openTails = new Set<Closeable>()
  let closing: Promise<void> | undefined

  function whileOpen<A extends unknown[], T>(call: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
    return async (...args) => {
      if (closing) throw new AppError('shutting_down', 'The event log is closed.')
      return call(...args)
    }
  }
  const administration = {
    ...createTopicCalls({ topics, positions, writer, reader }),
    ...createGroupCalls(clientId, groups, topics, { positions, queue }, writer),
  }
  // Object.fromEntries forgets which name has which call: every one comes back under its own name.
  const calls = Object.fromEntries(
    Object.entries(administration).map(([name, call]) => [name, whileOpen(call as () => Promise<unknown>)]),
  ) as unknown as typeof administration

  const appendAs = (holder: number): EventLog['append'] =>
    whileOpen(async (topic, partition, records, { timeoutMs = appendTimeoutMs } = {}) => {
      const state = topics.partition(topic, partition)
      if (state.topic.spec.cleanup === 'compact') refuseKeyless(records)
      return queue.append(state, records, { timeoutMs, holder })
    })
  async function closeParts(): Promise<void> {
    for (const tail of openTails) await tail.close()
    await groups.closeAll()
    await bounded(queue.settled(), settleTimeoutMs).catch(() => {})
    await closeThread(reader)
    await closeThread(writer)
  }

  return {
    driver: 'embedded',
    clientId,
    ...calls,
    append: appendAs(nobody),
    fencedWriter: whileOpen(async (name) => {
      const holder = await bounded(write.takeOver(name), appendTimeoutMs)
      return { append: appendAs(holder), close: async () => {} }
    }),
    // Members live in this process: one that is not closed is alive, so session time-outs have nothing to do here.
    consume: whileOpen(async (options) => groups.join(topics.topic(options.topic), options)),
    tail: whileOpen(async (options) => {
      const tail = createTail(topics.topic(options.topic), options, { fetch, fault, alive })
      openTails.add(tail)
      const close = async () => {
        openTails.delete(tail)
        await tail.close()
      }
      return { ...tail, close }
    }),
    compactNow: whileOpen((topic) => write.compactNow(topic)),
    sweepNow: whileOpen(() => write.sweepNow()),
    ping: whileOpen(async (timeoutMs) => {
      await bounded(Promise.all([write.ping(), reader.call.ping()]), timeoutMs ?? pingTimeoutMs)
    }),
    close() {
      closing ??= closeParts()
      return closing
    },
  }
}

/** The writer comes first: it makes the file. */
async function openThreads(data: WriterData & ReaderData) {
  let alive = true
  const died = (cause: unknown) => {
    alive = false
    return logUnavailable(cause)
  }
  const writer = openWorker<WriterHandlers>(
    { entry: new URL('./embedded/writer-thread.ts', import.meta.url), name: 'log-writer', data },
    died,
  )
  try {
    const loaded = await bounded(writer.call.open(), openTimeoutMs)
    const reader = openWorker<ReaderHandlers>(
      { entry: new URL('./embedded/reader-thread.ts', import.meta.url), name: 'log-reader', data },
      died,
    )
    return { writer, reader, loaded, alive: () => alive }
  } catch (error) {
    await writer.terminate()
    throw error
  }
}

/** A thread that does not end its work in time is ended: what it had committed stays. */
async function closeThread(
  thread: WorkerClient<WriterHandlers> | WorkerClient<ReaderHandlers>,
): Promise<void> {
  await bounded<void>(thread.call.close(), closeTimeoutMs).catch(() => {})
  await thread.terminate()
}

/** Compaction knows records by their key. */
function refuseKeyless(records: NewRecord[]): void {
  if (records.some((record) => record.key === null)) {
    throw new AppError('bad_request', 'A record of a compacted topic needs a key.')
  }
}

/** Lets the reading thread copy the WAL into the file, so that no commit waits for it. */
function createCheckpointer(
  reader: WorkerClient<ReaderHandlers>,
  fault: (error: unknown) => void,
): (bytes: number) => void {
  let since = 0
  let running = false
  return (bytes) => {
    since += bytes + pageBytesPerCommit
    if (running || since < checkpointEveryBytes) return
    since = 0
    running = true
    reader.call
      .checkpoint()
      .catch(fault)
      .finally(() => {
        running = false
      })
  }
}

function printFault(error: unknown): void {
  console.error(`event log: ${describeError(error)}`)
}
