/**
 * Rebuilds an index while writes go on; the rows of platform.index_generations say how far that is.
 *
 * A rebuild makes an empty generation N and a reader group for it (`vector-writer.gN`, `relational-writer.gN`) that
 * starts at the beginning of the log; its row says `building`. Every instance of the writer reads the rows when it hears
 * that they changed (and every few seconds, twice a second while a rebuild runs), and runs the groups that they name:
 * while building, the live one and N. Near the end one instance (by lease)
 * lets the engine finish N and sets `switching`: all stop the old group; the new one reaches every position that the
 * old one committed or published as progress; then the engine promotes N, and the row says `live`. Each step may be
 * repeated, so another instance can go on when one dies in between.
 *
 * For readers of vectors.progress (`after`, `wait`): the progress of a generation may be ahead of what reads see until
 * it is promoted, and the promoted one is never behind the one before it. So an operation is visible when some
 * generation that is not above the live one has applied it. Readers ask the engine which generation is live, and may
 * use an old answer, because generations only rise.
 */

import type { Groups, Log } from '#engines/event-log/port.ts'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import type { VectorStore } from '#engines/vectors/port.ts'
import { noticeOn } from '#runtime/notices.ts'
import { vectorsCommands } from '#topics/catalog.ts'

/** An index that is derived from vectors.commands. Each has generations, reader groups and an engine that holds it. */
export interface Index {
  name: 'vectors' | 'relational'
  /** The service that writes it; also the name of its first generation's reader group. */
  writer: string
}

export const vectorsIndex: Index = { name: 'vectors', writer: 'vector-writer' }
export const relationalIndex: Index = { name: 'relational', writer: 'relational-writer' }
export const indexes: readonly Index[] = [vectorsIndex, relationalIndex]

/** What a rebuild needs of the engine that holds an index; not every engine has anything to finish. */
export type GenerationEngine = Pick<
  VectorStore,
  'liveGeneration' | 'createGeneration' | 'promoteGeneration'
> &
  Partial<Pick<Mirror, 'finishGeneration'>>

/** The new group may be this many records behind when the old one is stopped. */
const nearRecords = 1_000
/** Who had read the rows just before they changed has joined by now, and is counted among the old group's members. */
const seenByAllMs = 2_500

export type GenerationState = 'building' | 'switching' | 'live' | 'retired'

export interface Generation {
  generation: number
  state: GenerationState
  /** The space that its writer makes the vectors of texts again for; null where they stay as they are. */
  embedder: string | null
  /** How long the row has been in its state. */
  ageMs: number
}

export interface RebuildParts {
  eventLog: Log & Groups
  relational: Relational
  index: Index
  engine: GenerationEngine
  /** Where vectors.commands lives. */
  physicalName: string
}

/** The reader group that fills a generation, as the log knows it. The first has the catalogue's name. */
export function groupOfGeneration({ writer }: Index, generation: number): string {
  return generation === 1 ? writer : `${writer}.g${generation}`
}

/** What people call that group: the writer's name, before and after a rebuild; while it fills a new one, `.rebuild`. */
export function shownGroup({ writer }: Index, { state }: Pick<Generation, 'state'>): string {
  return state === 'building' ? `${writer}.rebuild` : writer
}

/** All generations of an index that were ever made, oldest first. */
export async function listGenerations(executor: SqlExecutor, index: Index): Promise<Generation[]> {
  const { rows } = await executor.query<Generation>(
    `select generation, state, embedder, (extract(epoch from clock_timestamp() - updated_at) * 1000)::float8 as "ageMs"
     from platform.index_generations where index_name = $1 order by generation`,
    [index.name],
  )
  return rows
}

/** The generations whose groups must run now. */
export function generationsToWrite(generations: Generation[]): Generation[] {
  const switching = generations.find((one) => one.state === 'switching')
  if (switching) return [switching]
  return generations.filter((one) => one.state === 'live' || one.state === 'building')
}

/** Writes a row for the engine's live generation when no row says which it is. */
export async function ensureLiveGeneration(
  parts: Pick<RebuildParts, 'relational' | 'index' | 'engine'>,
): Promise<void> {
  const known = await listGenerations(parts.relational, parts.index)
  if (known.some((one) => one.state === 'live' || one.state === 'switching')) return
  await parts.relational.query(
    `insert into platform.index_generations (index_name, generation, state, embedder) values ($1, $2, 'live', $3)
     on conflict do nothing`,
    [parts.index.name, await parts.engine.liveGeneration(), embedderOf(known)],
  )
}

/** The embedder of the live generation, or of the newest one: a generation that follows keeps it. */
export function embedderOf(known: readonly Generation[]): string | null {
  return (known.find(({ state }) => state === 'live') ?? known.at(-1))?.embedder ?? null
}

/** The rebuild that is under way. */
export function runningRebuild(known: readonly Generation[]): Generation | undefined {
  return known.find(({ state }) => state === 'building' || state === 'switching')
}

/**
 * Begins a rebuild, or finds the one that runs. One caller at a time (hold a lease). `embedder` is the space that vectors of
 * texts are made again for, by default that of the live generation. Resolves with the number of the generation that is being filled.
 */
export async function beginRebuild(parts: RebuildParts, embedder?: string): Promise<number> {
  const known = await listGenerations(parts.relational, parts.index)
  const running = runningRebuild(known)
  if (running) return running.generation
  const live = await parts.engine.liveGeneration()
  const generation = Math.max(live, ...known.map((one) => one.generation)) + 1
  await parts.engine.createGeneration(generation)
  await prepareGroup(parts, generation)
  await parts.relational.query(
    `insert into platform.index_generations (index_name, generation, state, embedder) values ($1, $2, 'building', $3)
     returning ${noticeOn('flotilla_index_generations')}`,
    [parts.index.name, generation, embedder ?? embedderOf(known)],
  )
  return generation
}

/** Sets the group of a generation to the beginning of the log. */
export async function prepareGroup(
  parts: Pick<RebuildParts, 'eventLog' | 'relational' | 'index' | 'physicalName'>,
  generation: number,
): Promise<void> {
  const group = groupOfGeneration(parts.index, generation)
  const ranges = await parts.eventLog.offsets(parts.physicalName)
  const positions = ranges.map((range) => ({ partition: range.partition, offset: range.start }))
  await parts.eventLog.setPositions(group, parts.physicalName, positions)
  await parts.relational.query(
    'insert into platform.readers (topic, reader_group) values ($1, $2) on conflict do nothing',
    [vectorsCommands.name, group],
  )
}

/**
 * `done`: offsets read so far, of the `total` that the log holds now; `members` of the group that fills it: nothing happens
 * while there is none.
 */
export async function readRebuildStatus(parts: RebuildParts, generation: number) {
  const known = await listGenerations(parts.relational, parts.index)
  const state = known.find((one) => one.generation === generation)?.state ?? 'retired'
  const { members, committed } = await parts.eventLog.groupState(
    groupOfGeneration(parts.index, generation),
    parts.physicalName,
  )
  const positions = new Map(committed.map((one) => [one.partition, one.offset]))
  let done = 0
  let total = 0
  for (const range of await parts.eventLog.offsets(parts.physicalName)) {
    total += range.end - range.start
    done += Math.max(0, (positions.get(range.partition) ?? range.start) - range.start)
  }
  return { state, done: Math.min(done, total), total, members }
}

/** `appliedThrough` of a generation comes from vectors.progress. */
interface SwitchParts extends RebuildParts {
  appliedThrough(generation: number): ReadonlyMap<number, number>
}

/** Takes the next step of a rebuild when it is possible, and reports which. Called repeatedly, by one instance. */
export async function stepRebuild(parts: SwitchParts): Promise<'nothing' | 'switching' | 'live'> {
  const known = await listGenerations(parts.relational, parts.index)
  const next = runningRebuild(known)
  if (!next) return 'nothing'
  const status = await readRebuildStatus(parts, next.generation)
  if (next.state === 'building') {
    if (status.members === 0 || status.total - status.done > nearRecords) return 'nothing'
    await parts.engine.finishGeneration?.(next.generation)
    await setState(parts.relational, parts.index, next.generation, ['building', 'switching'])
    return 'switching'
  }
  if (next.ageMs < seenByAllMs) return 'nothing'
  const old = known.find((one) => one.state === 'live')
  if (old && !(await hasTakenOver(parts, old.generation, next.generation))) return 'nothing'
  await promote(parts, old?.generation, next.generation)
  return 'live'
}

async function setState(
  executor: SqlExecutor,
  index: Index,
  generation: number,
  [from, to]: [GenerationState, GenerationState],
): Promise<void> {
  await executor.query(
    `update platform.index_generations set state = $4, updated_at = clock_timestamp()
     where index_name = $1 and generation = $2 and state = $3
     returning ${noticeOn('flotilla_index_generations')}`,
    [index.name, generation, from, to],
  )
}

/** True when no instance runs the old group any more and the new one has applied all that the old one published. */
async function hasTakenOver(parts: SwitchParts, old: number, next: number): Promise<boolean> {
  const oldState = await parts.eventLog.groupState(groupOfGeneration(parts.index, old), parts.physicalName)
  if (oldState.members > 0) return false
  const nextState = await parts.eventLog.groupState(groupOfGeneration(parts.index, next), parts.physicalName)
  const reached = new Map(nextState.committed.map((one) => [one.partition, one.offset]))
  const targets = new Map(oldState.committed.map((one) => [one.partition, one.offset]))
  for (const [partition, through] of parts.appliedThrough(old)) {
    targets.set(partition, Math.max(targets.get(partition) ?? 0, through + 1))
  }
  return [...targets].every(([partition, offset]) => (reached.get(partition) ?? 0) >= offset)
}

async function promote(parts: SwitchParts, old: number | undefined, next: number): Promise<void> {
  if ((await parts.engine.liveGeneration()) !== next) await parts.engine.promoteGeneration(next)
  await parts.relational.transaction(async (tx) => {
    if (old !== undefined) await setState(tx, parts.index, old, ['live', 'retired'])
    await setState(tx, parts.index, next, ['switching', 'live'])
  })
  if (old !== undefined) await parts.eventLog.deleteGroup(groupOfGeneration(parts.index, old))
}
