/**
 * What operators do with dead letters: list, show, replay, discard. Written once for every kind of dead letters; a kind
 * says which ones a filter means, what is shown of one, and how one is replayed.
 */

import { randomUUID } from 'node:crypto'
import { sleep } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import {
  type DeadLetter,
  type DeadLetterParts,
  readDeadLetters,
  removeDeadLetters,
} from '#runtime/consume/dead-letters.ts'
import { withLease } from '#runtime/leases.ts'
import type { Position } from '#runtime/publish/messages.ts'
import type { ChangeDetails } from '#services/access/admin-audit/admin-audit.ts'
import type { DeadLetterOrigin } from '#topics/dead-letters.ts'
import { type Cell, type Shown, tableOf } from '../action.ts'
import type { ChangeContext } from '../change.ts'
import type { OperatedPlatform, OperationContext } from '../operation.ts'

/** `F` is the filter, `L` a letter in a list, `N` what names it in results, `V` what `show` adds. */
export interface LetterKind<F extends object, L extends { key: string }, N extends object, V extends object> {
  /** The name of its actions begins with it. */
  name: string
  /** Those that the filter means, in the order in which they are listed and replayed. */
  list(parts: DeadLetterParts, filter: F): Promise<L[]>
  /** The position that the letter is about. */
  originOf(letter: L): DeadLetterOrigin & { topic: string }
  nameOf(letter: L): N
  /** Letters that are shown at once, the first of the list. */
  shownMax: number
  show(platform: OperatedPlatform, letter: DeadLetter): Promise<V>
  /** How one is replayed; asked once for all that are replayed together. */
  openReplay(platform: OperatedPlatform): Promise<Replay>
}

/** Throws AppError for a letter that cannot be replayed, and removes one that was. */
export type Replay = (letter: DeadLetter) => Promise<Position>

/** What became of a letter that was replayed or discarded. */
type LetterOutcome =
  | ({ status: 'replayed' } & Position)
  | { status: 'discarded' }
  | { status: 'refused'; code: string; message: string }

/** How long a command waits for another one that replays or discards. */
const turnWithinMs = 10_000
const turnPollMs = 100

/** Letters that are held in memory at once; a value has 256 KiB at most. */
const heldMax = 200

export function deadLetterParts(platform: OperatedPlatform): DeadLetterParts {
  return { eventLog: platform.engines.eventLog, codec: platform.codec, publisher: platform.publisher }
}

/** Those that the filter means. */
export async function listLetters<F extends object, L extends { key: string }>(
  kind: Pick<LetterKind<F, L, object, object>, 'list'>,
  { platform }: OperationContext,
  filter: F,
): Promise<{ dead_letters: L[] }> {
  return { dead_letters: await kind.list(deadLetterParts(platform), filter) }
}

/** The first ones with what they hold. Throws AppError `dead_letter_not_found` when the filter means none. */
export async function showLetters<F extends object, L extends { key: string }, V extends object>(
  kind: Omit<LetterKind<F, L, object, V>, 'nameOf' | 'openReplay'>,
  { platform }: OperationContext,
  filter: F,
): Promise<{ dead_letters: (L & V)[] }> {
  const letters = (await meant(kind, platform, filter)).slice(0, kind.shownMax)
  const shown: (L & V)[] = []
  for await (const [letter, found] of withRecords(kind, platform, letters)) {
    if (found) shown.push({ ...letter, ...(await kind.show(platform, found)) })
  }
  return { dead_letters: shown }
}

/** Throws AppError `dead_letter_not_found` when the filter means none, `conflict` while others are treated. */
export function replayLetters<F extends object, L extends { key: string }, N extends object>(
  kind: LetterKind<F, L, N, object>,
  { platform, output, describe }: ChangeContext,
  filter: F,
): Promise<Results<N>> {
  return oneAtATime(platform, async (lost) => {
    const letters = await meant(kind, platform, filter)
    const replay = await kind.openReplay(platform)
    const results: Results<N>['results'] = []
    for await (const [letter, found] of withRecords(kind, platform, letters)) {
      if (lost.aborted) throw busy()
      results.push({ ...kind.nameOf(letter), ...(await tryReplay(replay, letter.key, found)) })
      describe(detailsOf(results))
      output.progress({ label: 'replaying', done: results.length, total: letters.length })
    }
    const [first] = results
    const none = results.every(({ status }) => status === 'refused')
    if (none && first?.status === 'refused') describe({ outcome: 'refused', reason: first.code })
    return { results }
  })
}

/** As `replayLetters`. */
export function discardLetters<F extends object, L extends { key: string }, N extends object>(
  kind: LetterKind<F, L, N, object>,
  { platform, describe }: ChangeContext,
  filter: F,
): Promise<Results<N>> {
  return oneAtATime(platform, async () => {
    const letters = await meant(kind, platform, filter)
    const results: Results<N>['results'] = letters.map((letter) => ({
      ...kind.nameOf(letter),
      status: 'discarded',
    }))
    describe(detailsOf(results))
    const origins = letters.map(kind.originOf)
    for (const [topic, own] of Map.groupBy(origins, (origin) => origin.topic)) {
      await removeDeadLetters(platform, topic, own)
    }
    return { results }
  })
}

type Columns<T> = Readonly<Record<string, (value: T) => Cell>>

/** A list of letters, at the command line. */
export function shownList<L>(letters: readonly L[], columns: Columns<L>): Shown {
  return letters.length === 0 ? 'no dead letters' : tableOf(letters, columns)
}

interface Ended {
  status: string
  message?: string
}

/** What became of each; `names` are the columns that say which one it was. */
export function shownResults<T extends Ended>(results: readonly T[], names: Columns<T>): Shown {
  return tableOf(results, { ...names, '': ({ status }) => status, why: ({ message }) => message ?? '' })
}

/** The exit code where one of several letters is refused. */
export function exitOf({ results }: { results: readonly Ended[] }): number {
  return results.some(({ status }) => status === 'refused') ? 1 : 0
}

export interface Results<N> {
  results: (N & LetterOutcome)[]
}

/** Letters that the audit names one by one; of more only the number. */
const namedMax = 100

function detailsOf(results: readonly LetterOutcome[]): ChangeDetails {
  const refused = results.filter(({ status }) => status === 'refused').length
  return { after: { results: results.slice(0, namedMax), refused }, count: results.length - refused }
}

/**
 * Two that treat the same letter at once would both find it: the second waits for the first, and then finds it gone.
 * Throws AppError `conflict` when that takes too long. The signal aborts when another one may have begun.
 */
async function oneAtATime<T>(
  { engines, instanceId }: OperatedPlatform,
  work: (lost: AbortSignal) => Promise<T>,
): Promise<T> {
  const end = performance.now() + turnWithinMs
  const lease = {
    name: 'dead-letters',
    holder: `${instanceId}-${randomUUID()}`,
    ttlMs: deadlines.lease.deadLettersMs,
  }
  while (performance.now() < end) {
    let ran = false
    const result = await withLease(engines.relational, lease, ({ signal }) => {
      ran = true
      return work(signal)
    })
    if (ran) return result as T
    await sleep(turnPollMs)
  }
  throw busy()
}

function busy(): AppError {
  return new AppError(
    'conflict',
    'Other dead letters are being replayed or discarded; try again when that is done.',
  )
}

/** Those that the filter means, at least one. */
async function meant<F extends object, L extends { key: string }>(
  kind: Pick<LetterKind<F, L, object, object>, 'name' | 'list'>,
  platform: OperatedPlatform,
  filter: F,
): Promise<L[]> {
  const letters = await kind.list(deadLetterParts(platform), filter)
  if (letters.length > 0) return letters
  throw new AppError(
    'dead_letter_not_found',
    `There is no such dead letter; \`flotilla ${kind.name} list\` shows all.`,
  )
}

/** The letters in their order, each with its record; without one where it is gone by now. */
async function* withRecords<L extends { key: string }>(
  kind: { originOf(letter: L): { topic: string } },
  platform: OperatedPlatform,
  letters: readonly L[],
): AsyncGenerator<[L, DeadLetter | undefined]> {
  for (let from = 0; from < letters.length; from += heldMax) {
    const some = letters.slice(from, from + heldMax)
    const byTopic = new Map<string, Map<string, DeadLetter>>()
    for (const [topic, own] of Map.groupBy(some, (letter) => kind.originOf(letter).topic)) {
      const keys = own.map(({ key }) => key)
      byTopic.set(topic, await readDeadLetters(deadLetterParts(platform), topic, keys))
    }
    for (const letter of some) yield [letter, byTopic.get(kind.originOf(letter).topic)?.get(letter.key)]
  }
}

/** One that is refused does not stop the others; an engine that is away does. */
async function tryReplay(
  replay: Replay,
  key: string,
  letter: DeadLetter | undefined,
): Promise<LetterOutcome> {
  try {
    if (!letter) throw new AppError('dead_letter_not_found', `There is no dead letter ${key} any more.`)
    return { status: 'replayed', ...(await replay(letter)) }
  } catch (error) {
    if (!(error instanceof AppError) || error.statusCode >= 500) throw error
    return { status: 'refused', code: error.code, message: error.message }
  }
}
