/** One open stream of changes: missed events first, then new ones, and `reset` where events may be missing. */

import type { Log } from '#engines/event-log/port.ts'
import type { EventStream, Json } from '#runtime/http/event-stream.ts'
import type { HubRecord } from '#schemas/types.ts'
import { eventIdOf, type Feed, type FeedRecord, type StreamPosition } from './feed.ts'

/** Records that wait while the stream reads what it missed. */
const waitingMax = 100
const fetchBytesMax = 32 * 1024

interface StreamParts {
  eventLog: Log
  feed: Feed
  stream: EventStream
  kind: HubRecord['kind']
  /** Made once for all streams. */
  text(record: HubRecord): Json
  /** Position of the last event that the reader had. */
  resumed: StreamPosition | null
  signal: AbortSignal
}

/** Resolves when the signal aborts. Rejects when the log does not let it read what it missed. */
export async function streamChanges(parts: StreamParts): Promise<void> {
  const { feed, stream, signal, resumed } = parts
  const position = feed.position()
  const next = [...position.next]
  const id = () => eventIdOf({ epoch: position.epoch, next })
  const waiting: FeedRecord[] = []
  let replaying = false
  let behind = false

  function show({ partition, offset, record }: FeedRecord): void {
    next[partition] = Math.max(next[partition]!, offset + 1)
    if (record?.kind === parts.kind) stream.send({ id: id(), data: parts.text(record) })
    else stream.mark(id())
  }

  /** A reader that does not keep up lists again: nobody keeps for it what it did not take. */
  function fallBehind(): void {
    if (behind) return
    behind = true
    void stream.room().then(() => {
      if (signal.aborted) return
      behind = false
      next.splice(0, next.length, ...feed.position().next)
      stream.send({ event: 'reset', id: id(), data: {} })
    })
  }

  function pass(record: FeedRecord): void {
    if (behind) return
    if (replaying && waiting.length < waitingMax) waiting.push(record)
    else if (replaying || !stream.hasRoom()) fallBehind()
    else show(record)
  }

  const leave = feed.subscribe(pass)
  try {
    const from = resumed === null ? 'now' : await startOf(parts, resumed, position)
    if (from === 'now') stream.send({ event: 'ready', id: id(), data: {} })
    else if (from === 'reset') stream.send({ event: 'reset', id: id(), data: {} })
    else if (from.some((offset, partition) => offset < position.next[partition]!)) {
      replaying = true
      next.splice(0, next.length, ...from)
      await replay(parts, from, position, show)
      replaying = false
      for (const record of waiting.splice(0)) pass(record)
    } else stream.mark(id())
    await aborted(signal)
  } finally {
    leave()
  }
}

/** Where the stream goes on behind what its reader had; `reset` when that is not in the log any more. */
async function startOf(
  { eventLog, feed }: StreamParts,
  resumed: StreamPosition,
  present: StreamPosition,
): Promise<number[] | 'reset'> {
  const known = resumed.epoch === present.epoch && resumed.next.length === present.next.length
  if (!known) return 'reset'
  // A reader may have had, at another instance, what this one has not read yet.
  const ranges = await eventLog.offsets(feed.topic)
  const inLog = ranges.every(
    ({ partition, start, end }) => resumed.next[partition]! >= start && resumed.next[partition]! <= end,
  )
  return inLog ? [...resumed.next] : 'reset'
}

async function replay(
  { feed, stream, signal }: StreamParts,
  from: readonly number[],
  to: StreamPosition,
  show: (record: FeedRecord) => void,
): Promise<void> {
  const ended = Promise.withResolvers<void>()
  const following = await feed.follow({
    from: ({ partition }) => from[partition] ?? 0,
    fetchBytesMax,
    frugal: true,
    async onRecord(record) {
      await stream.room()
      // The feed brings later events.
      if (signal.aborted || record.offset >= to.next[record.partition]!) return
      show(await feed.decode(record))
    },
    onEnd: ended.reject,
  })
  try {
    await Promise.race([following.ready, ended.promise, aborted(signal)])
  } finally {
    await following.close()
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
