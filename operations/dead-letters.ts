/**
 * What operators do with dead letters: list, show, replay, discard. Written once for every kind of dead letters; a kind
 * says which ones a filter means, what is shown of one, and how one is replayed.
 */

import type { Static, TObject } from 'typebox'
import { AppError } from '#lib/errors.ts'
import {
  type DeadLetter,
  type DeadLetterParts,
  readDeadLetters,
  removeDeadLetters,
} from '#runtime/dead-letters.ts'
import type { Position } from '#runtime/messages.ts'
import type { Platform } from '#runtime/platform.ts'
import type { DeadLetterOrigin } from '#topics/catalog.ts'
import { defineOperation } from './operation.ts'

/** `F` is the schema of the filter, `L` a letter in a list, `N` what names it in results, `V` what `show` adds. */
export interface LetterKind<
  F extends TObject,
  L extends { key: string },
  N extends object,
  V extends object,
> {
  /** The name of its operations begins with it. */
  name: string
  filter: F
  /** Those that the filter means, in the order in which they are listed and replayed. */
  list(parts: DeadLetterParts, filter: Static<F>): Promise<L[]>
  /** The position that the letter is about. */
  originOf(letter: L): DeadLetterOrigin & { topic: string }
  nameOf(letter: L): N
  /** Letters that are shown at once, the first of the list. */
  shownMax: number
  show(platform: Platform, letter: DeadLetter): Promise<V>
  /** How one is replayed; asked once for all that are replayed together. */
  openReplay(platform: Platform): Promise<Replay>
}

/** Throws AppError for a letter that cannot be replayed, and removes one that was. */
export type Replay = (letter: DeadLetter) => Promise<Position>

/** What became of a letter that was replayed or discarded. */
export type LetterOutcome =
  | ({ status: 'replayed' } & Position)
  | { status: 'discarded' }
  | { status: 'refused'; code: string; message: string }

/** Letters that are held in memory at once; a value has 256 KiB at most. */
const heldMax = 200

export function deadLetterParts(platform: Platform): DeadLetterParts {
  return { eventLog: platform.engines.eventLog, codec: platform.codec, publisher: platform.publisher }
}

/** The four operations. Those that treat letters throw AppError `dead_letter_not_found` when the filter means none. */
export function deadLetterOperations<
  F extends TObject,
  L extends { key: string },
  N extends object,
  V extends object,
>(kind: LetterKind<F, L, N, V>) {
  return {
    list: defineOperation({
      name: `${kind.name} list`,
      needs: [],
      args: kind.filter,
      async run({ platform }, filter): Promise<{ dead_letters: L[] }> {
        return { dead_letters: await kind.list(deadLetterParts(platform), filter) }
      },
    }),
    show: defineOperation({
      name: `${kind.name} show`,
      needs: [],
      args: kind.filter,
      async run({ platform }, filter): Promise<{ dead_letters: (L & V)[] }> {
        const letters = (await meant(kind, platform, filter)).slice(0, kind.shownMax)
        const shown: (L & V)[] = []
        for await (const [letter, found] of withRecords(kind, platform, letters)) {
          if (found) shown.push({ ...letter, ...(await kind.show(platform, found)) })
        }
        return { dead_letters: shown }
      },
    }),
    replay: defineOperation({
      name: `${kind.name} replay`,
      needs: [],
      args: kind.filter,
      async run({ platform, output }, filter): Promise<{ results: (N & LetterOutcome)[] }> {
        const letters = await meant(kind, platform, filter)
        const replay = await kind.openReplay(platform)
        const results: (N & LetterOutcome)[] = []
        for await (const [letter, found] of withRecords(kind, platform, letters)) {
          results.push({ ...kind.nameOf(letter), ...(await tryReplay(replay, letter.key, found)) })
          output.progress({ label: 'replaying', done: results.length, total: letters.length })
        }
        return { results }
      },
    }),
    discard: defineOperation({
      name: `${kind.name} discard`,
      needs: [],
      args: kind.filter,
      async run({ platform }, filter): Promise<{ results: (N & LetterOutcome)[] }> {
        const letters = await meant(kind, platform, filter)
        for (const [topic, origins] of Map.groupBy(letters.map(kind.originOf), (origin) => origin.topic)) {
          await removeDeadLetters(platform, topic, origins)
        }
        return { results: letters.map((letter) => ({ ...kind.nameOf(letter), status: 'discarded' })) }
      },
    }),
  }
}

/** Those that the filter means, at least one. */
async function meant<F extends TObject, L extends { key: string }>(
  kind: Pick<LetterKind<F, L, object, object>, 'name' | 'list'>,
  platform: Platform,
  filter: Static<F>,
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
  platform: Platform,
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
