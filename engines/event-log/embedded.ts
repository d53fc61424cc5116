/**
 * The event log of a single process: one SQLite file, a thread that writes it, a thread that reads it, and consumer
 * groups in memory.
 */

import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { type Administration, createAdministration } from './embedded/administration.ts'
import { createClock } from './embedded/clock.ts'
import { createGroups, type Groups } from './embedded/groups.ts'
import { nobody } from './embedded/holders.ts'
import { logPath } from './embedded/layout.ts'
import { openLogReader } from './embedded/log-reader.ts'
import { createPositions } from './embedded/positions.ts'
import { createTail } from './embedded/tail.ts'
import { bounded, openThreads, type Threads } from './embedded/threads.ts'
import { createTopics, type Topics } from './embedded/topics.ts'
import { createWriteQueue, type WriteQueue } from './embedded/write-queue.ts'
import type { Written } from './embedded/writer.ts'
import type { EventLog, NewRecord } from './port.ts'

/** Bytes written to the WAL before a checkpoint copies it into the file. */
const checkpointEveryBytes = 4_194_304
/** What a commit writes in addition to its records: whole pages. */
const pageBytesPerCommit = 8_192
const appendTimeoutMs = deadlines.engine.logAppendMs
const pingTimeoutMs = deadlines.engine.pingMs
/** For what is being written when the log is closed. */
const settleTimeoutMs = deadlines.engine.logDrainMs

/** Times of records follow a wall clock that jumped ahead after this long. */
const timesBelieveAfterMs = 600_000

export interface EmbeddedLogOptions {
  /** Holds the file `event-log.sqlite`; made when absent. It has one owner: whoever starts the platform locks it. */
  directory: string
  /** Between two rounds that remove what is expired or superseded. */
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

interface Parts {
  clientId: string
  threads: Threads
  topics: Topics
  queue: WriteQueue
  groups: Groups
  /** Tails and readers. */
  open: Set<Closeable>
  fault(error: unknown): void
}

/** Opens the log, also one whose process was killed. Throws `invalid_configuration` for a file of a newer layout. */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<EmbeddedLog> {
  const { directory, sweepEveryMs = 5_000, onFault = printFault } = options
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const threads = await openThreads({ file: logPath(directory), sweepEveryMs })
  const topics = createTopics()
  for (const topic of threads.loaded.topics) topics.add(topic)
  followCleaner(threads, topics, onFault)
  const positions = createPositions(threads.loaded.positions)
  const queue = createWriteQueue({
    write: (batch) => threads.writer.send('write', [batch], [batch.block]) as Promise<Written>,
    wrote: createCheckpointer(threads, onFault),
    clock: createClock({
      startAt: Math.max(threads.loaded.newestAt, Date.now()),
      believedAfterMs: timesBelieveAfterMs,
    }),
  })
  const { fetch } = threads.reader.call
  const groups = createGroups({ positions, queue, fetch, fault: onFault, alive: threads.alive })
  const clientId = randomUUID()
  const administration = createAdministration({ clientId, threads, topics, positions, groups, queue })
  return assemble(
    { clientId, threads, topics, queue, groups, open: new Set(), fault: onFault },
    administration,
  )
}

function assemble(parts: Parts, administration: Administration): EmbeddedLog {
  const { threads, topics, queue, groups, open, fault } = parts
  const write = threads.writer.call
  let closing: Promise<void> | undefined

  function whileOpen<A extends unknown[], T>(call: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
    return async (...args) => {
      if (closing) throw new AppError('shutting_down', 'The event log is closed.')
      return call(...args)
    }
  }
  // Object.fromEntries forgets which name has which call: every one comes back under its own name.
  const calls = Object.fromEntries(
    Object.entries(administration).map(([name, call]) => [name, whileOpen(call as () => Promise<unknown>)]),
  ) as unknown as Administration

  const reading = { fetch: threads.reader.call.fetch, fault }
  function remember<T extends Closeable>(reader: T): T {
    open.add(reader)
    const close = async () => {
      open.delete(reader)
      await reader.close()
    }
    return { ...reader, close }
  }
  const appendAs = (holder: number): EventLog['append'] =>
    whileOpen(async (topic, partition, records, { timeoutMs = appendTimeoutMs } = {}) => {
      const state = topics.partition(topic, partition)
      if (state.topic.spec.cleanup === 'compact') refuseKeyless(records)
      return queue.append(state, records, { timeoutMs, holder })
    })

  return {
    driver: 'embedded',
    clientId: parts.clientId,
    ...calls,
    append: appendAs(nobody),
    fencedWriter: whileOpen(async (name) => {
      const holder = await bounded(write.takeOver(name), appendTimeoutMs)
      return { append: appendAs(holder), close: async () => {} }
    }),
    // Members live in this process: one that is not closed is alive, so session time-outs have nothing to do here.
    consume: whileOpen(async (options) => groups.join(topics.topic(options.topic), options)),
    tail: whileOpen(async (options) =>
      remember(createTail(topics.topic(options.topic), options, { ...reading, alive: threads.alive })),
    ),
    read: whileOpen(async (options) =>
      remember(openLogReader(topics.topic(options.topic), options, reading)),
    ),
    compactNow: whileOpen((topic) => write.compactNow(topic)),
    sweepNow: whileOpen(() => write.sweepNow()),
    ping: whileOpen(async (timeoutMs) => {
      await bounded(Promise.all([write.ping(), threads.reader.call.ping()]), timeoutMs ?? pingTimeoutMs)
    }),
    close() {
      closing ??= closeParts(parts)
      return closing
    },
  }
}

async function closeParts({ threads, queue, groups, open }: Parts): Promise<void> {
  for (const reader of open) await reader.close()
  await groups.closeAll()
  await bounded(queue.settled(), settleTimeoutMs).catch(() => {})
  await threads.close()
}

/** Compaction knows records by their key. */
function refuseKeyless(records: NewRecord[]): void {
  if (records.some((record) => record.key === null)) {
    throw new AppError('bad_request', 'A record of a compacted topic needs a key.')
  }
}

function followCleaner(threads: Threads, topics: Topics, fault: (error: unknown) => void): void {
  threads.writer.on('trimmed', ({ id, start }: { id: number; start: number }) => {
    const state = topics.byId(id)
    if (!state) return
    state.start = Math.max(state.start, start)
    for (const reader of [...state.readers]) reader.changed()
  })
  threads.writer.on('fault', (message: string) => fault(new Error(message)))
}

/** Lets the reading thread copy the WAL into the file, so that no commit waits for it. */
function createCheckpointer(threads: Threads, fault: (error: unknown) => void): (bytes: number) => void {
  let since = 0
  let running = false
  return (bytes) => {
    since += bytes + pageBytesPerCommit
    if (running || since < checkpointEveryBytes) return
    since = 0
    running = true
    threads.reader.call
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
