/** `flotilla dead-letters`: what the workers gave up on, and what becomes of it. */

import { type Static, Type } from 'typebox'
import { AppError } from '#lib/errors.ts'
import {
  type DeadLetterDependencies,
  discardDeadLetter,
  type ListedDeadLetter,
  listDeadLetters,
  replayDeadLetter,
  showDeadLetter,
} from '#runtime/dead-letters.ts'
import type { Platform } from '#runtime/platform.ts'
import { type ShownRecord, showRecord } from '#runtime/show-record.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { defineOperation } from './operation.ts'
import { findTopic } from './topics-tail.ts'
import { replayDelivery } from './webhooks/replay.ts'

const filterArgs = Type.Object({
  topic: Type.Optional(Type.String()),
  /** A record's key, or `<group>/<partition>/<offset>` of one dead letter. */
  key: Type.Optional(Type.String()),
})
export type Filter = Static<typeof filterArgs>

export type Letter = Omit<ListedDeadLetter, 'parkedAt'> & { parkedAt: string }
type ShownLetter = Letter & Pick<ShownRecord, 'value' | 'fault'>

export interface Treated {
  topic: string
  key: string
  status: 'replayed' | 'discarded' | 'refused'
  /** Where a replayed one is now. */
  partition?: number
  offset?: number
  /** Why one was refused. */
  code?: string
  message?: string
}

function dependenciesOf(platform: Platform): DeadLetterDependencies {
  return { eventLog: platform.engines.eventLog, codec: platform.codec, publisher: platform.publisher }
}

function letterOf({ parkedAt, ...letter }: ListedDeadLetter): Letter {
  return { ...letter, parkedAt: new Date(parkedAt).toISOString() }
}

export const deadLettersListOperation = defineOperation({
  name: 'dead-letters list',
  needs: [],
  args: filterArgs,
  async run({ platform }, filter) {
    return { dead_letters: (await listDeadLetters(dependenciesOf(platform), filter)).map(letterOf) }
  },
})

export const deadLettersShowOperation = defineOperation({
  name: 'dead-letters show',
  needs: [],
  args: filterArgs,
  async run({ platform }, filter) {
    const dependencies = dependenciesOf(platform)
    const shown: ShownLetter[] = []
    for (const listed of await matching(dependencies, filter)) {
      const { value, ...letter } = await showDeadLetter(dependencies, listed)
      const { partition, offset, headers } = letter
      const record = {
        partition,
        offset,
        headers,
        value,
        timestamp: 0,
        key: Buffer.from(letter.recordKey ?? ''),
      }
      const decoded = await showRecord(platform.codec, findTopic(letter.topic), record)
      shown.push({
        ...letterOf(letter),
        value: decoded.value,
        ...(decoded.fault === undefined ? {} : { fault: decoded.fault }),
      })
    }
    return { dead_letters: shown }
  },
})

export const deadLettersReplayOperation = defineOperation({
  name: 'dead-letters replay',
  needs: [],
  args: filterArgs,
  run: ({ platform }, filter) =>
    treatAll(platform, filter, 'replayed', (dependencies, name) => {
      // The partition of a delivery is its target's, not its key's.
      if (name.topic !== webhooksDeliveries.name) return replayDeadLetter(dependencies, name)
      return replayDelivery({ ...dependencies, relational: platform.engines.relational }, name)
    }),
})

export const deadLettersDiscardOperation = defineOperation({
  name: 'dead-letters discard',
  needs: [],
  args: filterArgs,
  run: ({ platform }, filter) =>
    treatAll(platform, filter, 'discarded', async (dependencies, name) => {
      await discardDeadLetter(dependencies, name)
      return {}
    }),
})

/** Those that match, at least one. */
async function matching(dependencies: DeadLetterDependencies, filter: Filter): Promise<ListedDeadLetter[]> {
  const listed = await listDeadLetters(dependencies, filter)
  if (listed.length > 0) return listed
  throw new AppError(
    'dead_letter_not_found',
    'There is no such dead letter; `flotilla dead-letters list` shows all.',
  )
}

/** Oldest first; one that is refused does not stop the others. */
async function treatAll(
  platform: Platform,
  filter: Filter,
  status: 'replayed' | 'discarded',
  treat: (
    dependencies: DeadLetterDependencies,
    name: { topic: string; key: string },
  ) => Promise<{ partition?: number; offset?: number }>,
): Promise<{ results: Treated[] }> {
  const dependencies = dependenciesOf(platform)
  const results: Treated[] = []
  for (const { topic, key } of await matching(dependencies, filter)) {
    try {
      results.push({ topic, key, status, ...(await treat(dependencies, { topic, key })) })
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'log_unavailable') throw error
      results.push({ topic, key, status: 'refused', code: error.code, message: error.message })
    }
  }
  return { results }
}
