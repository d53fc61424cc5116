/** Writes batches as rows into one generation of the mirror, and keeps the position of each partition with the rows. */

import type {
  Mirror,
  MirrorOperation,
  MirrorPosition,
  MirrorRow,
  MirrorTarget,
} from '#engines/relational/mirror/port.ts'
import type { Payload, PointOperation } from '#engines/vectors/port.ts'
import { type BatchOutcome, done, park } from '#lib/outcome.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { Pace } from '#runtime/repeat.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { parsePointKey } from '#topics/catalog.ts'
import { readStandings, type Standings } from '../collections/leave-out.ts'
import type { Collections } from '../collections/registry.ts'
import type { StuckRecords } from '../write/failures.ts'
import type { EngineCalls, GenerationHandler, Pending } from '../write/generation-writer.ts'
import { outcomeOfFault, parseOperation } from '../write/handler.ts'
import { joinCalls } from '../write/join-calls.ts'

/** Audit notes are only searched by their meaning: the mirror does not hold them. */
const auditNotes = 'fleet_notes/audit-'

interface GenerationParts {
  mirror: Pick<Mirror, 'driver' | 'apply' | 'positions'>
  target: MirrorTarget
  /** The first offset of the log in each partition. */
  logStarts(): Promise<ReadonlyMap<number, number>>
  calls: EngineCalls
  stuck: Pick<StuckRecords, 'isSkipped'>
  collections: Pick<Collections, 'standing'>
  tracing?: Tracing | undefined
  /** Slows rows down while other work comes first. */
  pace?: Pace
}

/** A server has a core for a second transaction; the embedded engine is one thread. */
const transactionsMax = { postgres: 2, embedded: 1 }

/**
 * Batches of several partitions share a transaction. Nobody waits for one that was given up; it may still be applied, and
 * so may a repeat after it.
 */
export function joinApplies(
  mirror: Pick<Mirror, 'driver' | 'apply'>,
  target: MirrorTarget,
  tracing?: Tracing,
) {
  const join = joinCalls<{ operations: MirrorOperation[]; positions: MirrorPosition[] }>({
    operationsMax: 600,
    callsMax: transactionsMax[mirror.driver],
    givenUp: 'relational_engine_unavailable',
    tracing,
    call: (writes) =>
      mirror.apply(
        target,
        writes.flatMap(({ operations }) => operations),
        writes.flatMap(({ positions }) => positions),
      ),
  })
  return (
    operations: MirrorOperation[],
    positions: MirrorPosition[],
    options: { signal?: AbortSignal; alone?: boolean } = {},
  ): Promise<void> => join({ operations, positions }, options)
}

export function createGeneration(parts: GenerationParts): GenerationHandler {
  const { mirror, target } = parts
  /** The position of each partition in the tables. */
  const kept = new Map<number, number>()
  /** Behind the settled records; records that are not mirrored may lie between the two. */
  const passed = new Map<number, number>()
  /** Partitions with a parked record that their position has not passed yet. */
  const parked = new Set<number>()
  /** Gained partitions in which a former owner may have parked a record that their position has not passed. */
  const uncertain = new Set<number>()
  const applyJoined = joinApplies(mirror, target, parts.tracing)
  const apply: typeof applyJoined = async (operations, positions, options) => {
    await applyJoined(operations, positions, options)
    for (const { partition, next } of positions) kept.set(partition, next)
  }

  return {
    async handle(messages, context) {
      const asked = readStandings(messages, parts.collections)
      const standings = asked instanceof Promise ? await asked : asked
      if ('kind' in standings) return messages.map(() => standings)
      const outcomes = new Array<BatchOutcome>(messages.length).fill(done)
      const pending = parse({ ...parts, standings }, messages, outcomes)
      if (pending.length === 0) return outcomes
      await parts.pace?.take(pending.length, context.signal)
      const { written, fault } = await parts.calls.write(pending, context, (some, alone) => {
        const positions = parked.has(context.partition) ? [] : positionsAfter(some.at(-1)!, outcomes)
        const operations = some.map(({ operation }) => operation)
        return apply(operations, positions, { signal: context.signal, alone })
      })
      for (const { index } of pending.slice(written)) outcomes[index] = outcomeOfFault('relational', fault)
      return outcomes
    },
    /**
     * A partition without a position in the tables begins with the log, whatever was committed: its rows are not here.
     */
    async positions(partitions) {
      const starts = await parts.logStarts()
      const held = new Map((await mirror.positions(target)).map((one) => [one.partition, one.next]))
      for (const partition of partitions) {
        kept.set(partition, held.get(partition) ?? starts.get(partition) ?? 0)
        passed.delete(partition)
        uncertain.add(partition)
      }
      return new Map(partitions.map((partition) => [partition, kept.get(partition)!]))
    },
    parked(partition) {
      parked.add(partition)
    },
    /** A position that passes nothing but records that are not mirrored is written later: reading them again costs little. */
    async settled(partition, throughOffset) {
      const next = throughOffset + 1
      if (next <= (kept.get(partition) ?? 0)) return
      passed.set(partition, next)
      if (!parked.has(partition) && !uncertain.has(partition)) return
      await apply([], [{ partition, next }])
      parked.delete(partition)
      uncertain.delete(partition)
    },
    /** Else the position of a writer that is stopped for weeks would lie behind what the group committed, and look old. */
    async keep() {
      const behind = [...passed].filter(([partition, next]) => next > (kept.get(partition) ?? 0))
      const positions = behind.map(([partition, next]) => ({ partition, next }))
      if (positions.length > 0) await apply([], positions)
    },
  }
}

/** Rows to write, in order. Records that can never be written get their outcome here. */
function parse(
  { stuck, target, standings }: GenerationParts & { standings: Standings },
  messages: Message<VectorUpsert>[],
  outcomes: BatchOutcome[],
): Pending<MirrorOperation>[] {
  const pending: Pending<MirrorOperation>[] = []
  for (const [index, message] of messages.entries()) {
    const { key, partition, offset } = message
    if (key.startsWith(auditNotes)) continue
    const parsed = parseOperation(message, { epoch: target.epoch, stuck, standings })
    if (parsed === 'left out') {
      const gone = message.value === null && parsePointKey(key)
      // Rows of its collection may be here: it was deleted while the mirror was off.
      if (gone) pending.push({ index, offset, key, operation: { partition, offset, ...gone, row: null } })
      continue
    }
    if ('fault' in parsed) {
      outcomes[index] = park(parsed.fault)
      continue
    }
    const { collection, operation } = parsed
    const row = operation.kind === 'delete' ? null : rowOf(operation)
    pending.push({ index, offset, key, operation: { partition, offset, collection, id: operation.id, row } })
  }
  return pending
}

/** A position never passes a record that is yet to be parked. */
function positionsAfter(
  { index, operation }: Pending<MirrorOperation>,
  outcomes: BatchOutcome[],
): MirrorPosition[] {
  if (outcomes.slice(0, index).some((outcome) => outcome.kind === 'park')) return []
  return [{ partition: operation.partition, next: operation.offset + 1 }]
}

/** Deeper than anything a gateway accepts; PostgreSQL fails somewhere beyond a thousand levels. */
const depthMax = 128

export function rowOf({
  vector,
  payload,
  expiresAt,
}: Extract<PointOperation, { kind: 'upsert' }>): MirrorRow {
  const clean = cleanValue(payload, 1) as Payload
  return {
    embedding: vector,
    title: textOf(clean.title),
    status: textOf(clean.status),
    tags: Array.isArray(clean.tags) ? clean.tags.filter((tag) => typeof tag === 'string') : null,
    mindPath: textOf(clean.mind_path),
    updatedAt: timestampOf(clean.updated_at),
    payload: clean,
    expiresAt: expiresAt === undefined ? null : new Date(expiresAt),
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/** ISO 8601 with a four-digit year; without an offset it is UTC. */
const timestamp = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)\s*(Z|[+-]\d\d(?::?\d\d)?)?)?$/i

function timestampOf(value: unknown): Date | null {
  const match = typeof value === 'string' ? timestamp.exec(value.trim()) : null
  if (!match) return null
  const [, day, time = '00:00', offset = 'Z'] = match
  const parsed = new Date(`${day}T${time.replace(',', '.')}${offsetText(offset)}`)
  return Number.isNaN(parsed.getTime()) || !isDay(day as string) ? null : parsed
}

/** A parser may read 30 February as a day in March. */
function isDay(day: string): boolean {
  const midnight = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day)
}

function offsetText(offset: string): string {
  const digits = /^([+-]\d\d):?(\d\d)?$/.exec(offset)
  return digits ? `${digits[1]}:${digits[2] ?? '00'}` : 'Z'
}

/** PostgreSQL's text and jsonb hold neither NUL nor half a surrogate pair. */
function cleanText(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd')
}

function cleanValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return cleanText(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > depthMax) return null
  if (Array.isArray(value)) return value.map((item) => cleanValue(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [cleanText(key), cleanValue(item, depth + 1)]),
  )
}
