/**
 * Copies a public topic into files or tables, each record once: the target keeps the position together with the data, and
 * a sink that was ended anyhow goes on behind it. It reads outside of all groups, so nothing of the platform waits for it.
 */

import type { Logger } from 'pino'
import { type Static, Type } from 'typebox'
import { openForeignPostgres } from '#engines/open.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError, isUnavailable } from '#lib/errors.ts'
import type { Output } from '#runtime/start/control.ts'
import { catalog } from '#topics/catalog.ts'
import { findTopic } from '../find-topic.ts'
import { defineOperation } from '../operation.ts'
import { readPosition } from '../topic-stream/position.ts'
import {
  type OpenedRecords,
  openRecords,
  type RecordsPlatform,
  shownOf,
  streamRecords,
} from '../topic-stream/records.ts'
import { openJsonlTarget, type PositionedRecord, type SinkTarget } from './jsonl.ts'
import { openPostgresTarget, tableForm } from './postgres.ts'

/** Most records of one write. */
const batchRecords = 500
const batchLength = 1024 * 1024
const awayBackoff = { baseMs: 200, maxMs: 5_000 }

const common = Type.Object({
  topic: Type.String(),
  /** Where it begins, while the target holds nothing. */
  from: Type.String(),
  /** Goes on with what comes, until the operator ends it. */
  follow: Type.Boolean(),
  /** Records that were removed before they were copied are left out; else they end the sink. */
  skipExpired: Type.Boolean(),
})
export type SinkArgs = Static<typeof common>

export interface SinkResult {
  topic: string
  /** Copied by this run. */
  records: number
  /** Behind the last one; null: the target holds none. */
  position: string | null
}

export const sinkJsonlOperation = defineOperation({
  name: 'sink jsonl',
  args: Type.Object({
    ...common.properties,
    folder: Type.String(),
    rotateBytes: Type.Integer({ minimum: 1 }),
  }),
  async run(context, { folder, rotateBytes, ...args }): Promise<SinkResult> {
    publicTopic(args.topic)
    return copyInto(context, args, await openJsonlTarget({ folder, topic: args.topic, rotateBytes }))
  },
})

export const sinkPostgresOperation = defineOperation({
  name: 'sink postgres',
  args: Type.Object({
    ...common.properties,
    /** May hold a password. */
    url: Type.String(),
    name: Type.String({ minLength: 1, maxLength: 128 }),
    table: Type.String({ pattern: tableForm, rule: 'the name of a table, or schema.table' }),
    mode: Type.Enum(['append', 'state']),
  }),
  async run(context, { url, name, table, mode, ...args }): Promise<SinkResult> {
    const topic = publicTopic(args.topic)
    if (mode === 'state' && topic.cleanup !== 'compact') {
      throw new AppError('bad_request', `${topic.name} is no compacted topic: copy it with --mode append.`)
    }
    const relational = await openForeignPostgres(url, context.platform.log)
    try {
      const target = await openPostgresTarget(relational, { topic: topic.name, name, table, mode })
      return await copyInto(context, args, target)
    } finally {
      await relational.close()
    }
  },
})

function publicTopic(name: string) {
  const topic = findTopic(name)
  if (topic.public) return topic
  const names = catalog.filter((one) => one.public).map((one) => one.name)
  throw new AppError('bad_request', `${name} is internal. Public topics: ${names.join(', ')}.`)
}

type SinkPlatform = RecordsPlatform & { log: Logger }

interface SinkContext {
  platform: SinkPlatform
  output: Pick<Output, 'progress'>
  signal: AbortSignal
}

/** Closes the target. While an engine is away it waits, and then reads again from the position that the target holds. */
export async function copyInto(
  { platform, output, signal }: SinkContext,
  args: SinkArgs,
  target: SinkTarget,
): Promise<SinkResult> {
  const progress = createProgress(output, args.topic)
  try {
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        await copyOnce(platform, args, target, { signal, progress })
        break
      } catch (error) {
        if (!isUnavailable(error) || signal.aborted) throw error
        platform.log.warn({ topic: args.topic, reason: describeError(error) }, 'sink.waiting')
        await sleep(Math.max(50, backoffMs(tries, awayBackoff)), signal)
      }
    }
    return { topic: args.topic, records: progress.records(), position: await target.position() }
  } finally {
    await target.close()
  }
}

async function copyOnce(
  platform: SinkPlatform,
  args: SinkArgs,
  target: SinkTarget,
  { signal, progress }: { signal: AbortSignal; progress: ReturnType<typeof createProgress> },
): Promise<void> {
  const opened = await openBehind(platform, args, await target.position())
  await progress.begin(opened)
  let batch: PositionedRecord[] = []
  let length = 0
  async function flush(): Promise<void> {
    if (batch.length === 0) return
    const records = batch
    batch = []
    length = 0
    await target.write(records)
    progress.wrote(records.length, opened)
  }
  await streamRecords(
    opened,
    {
      show: (record) => shownOf(opened, record),
      async record(position, record) {
        batch.push({ position, ...record })
        length += typeof record.value === 'string' ? record.value.length : JSON.stringify(record.value).length
        if (batch.length >= batchRecords || length >= batchLength) await flush()
      },
      passed: flush,
      async caughtUp() {
        if (!signal.aborted) await target.caughtUp?.(opened.epoch)
      },
    },
    { signal, follow: args.follow },
  )
}

/** A topic that was copied into more partitions is read from its beginning: its new epoch holds the newest of each key. */
async function openBehind(
  platform: SinkPlatform,
  { topic, from, skipExpired }: SinkArgs,
  held: string | null,
): Promise<OpenedRecords> {
  const { epoch } = platform.publisher.locationOf(findTopic(topic))
  const copied = held !== null && readPosition(held, 'position').epoch < epoch
  try {
    return await openRecords(platform, { topic, from: copied ? 'beginning' : (held ?? from), field: 'from' })
  } catch (error) {
    const expired = error instanceof AppError && error.code === 'position_expired'
    if (!expired || !skipExpired) throw error
    return openRecords(platform, { topic, from: String(error.members?.earliest), field: 'from' })
  }
}

/** In offsets, of which compaction leaves some out. */
function createProgress(output: Pick<Output, 'progress'>, topic: string) {
  let records = 0
  let begun = 0
  let total = 0
  const sumOf = ({ next }: OpenedRecords) => [...next.values()].reduce((sum, offset) => sum + offset, 0)
  return {
    records: () => records,
    async begin(opened: OpenedRecords): Promise<void> {
      begun = sumOf(opened)
      const ranges = await opened.platform.eventLog.offsets(opened.name)
      total = ranges.reduce((sum, { end }) => sum + end, 0) - begun
    },
    wrote(count: number, opened: OpenedRecords): void {
      records += count
      const done = sumOf(opened) - begun
      output.progress({ label: `copying ${topic}`, done, total: Math.max(total, done) })
    },
  }
}
