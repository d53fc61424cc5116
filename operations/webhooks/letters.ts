/** `flotilla webhooks dead-letters`: deliveries that were given up, and what becomes of them. */

import { AppError } from '#lib/errors.ts'
import type { DeadLetterDependencies } from '#runtime/dead-letters.ts'
import type { Platform } from '#runtime/platform.ts'
import { defineOperation } from '../operation.ts'
import {
  discardParkedDeliveries,
  listParkedDeliveries,
  type ParkedDelivery,
  type ParkedFilter,
  parkedFilter,
  showParkedDeliveries,
} from './dead-letters.ts'
import { namedTargets } from './named-targets.ts'
import { replayDeliveries } from './replay.ts'

/** Bodies that are shown at once. */
const shownMax = 100

export type ShownDelivery = ParkedDelivery & { body: unknown }

export interface Treated {
  target: string
  sequence: number | null
  key: string
  status: 'replayed' | 'discarded' | 'refused'
  code?: string
  message?: string
}

export const deliveriesListOperation = defineOperation({
  name: 'webhooks dead-letters list',
  needs: [],
  args: parkedFilter,
  async run({ platform }, filter) {
    return { dead_letters: await listParkedDeliveries(dependenciesOf(platform), filter) }
  },
})

export const deliveriesShowOperation = defineOperation({
  name: 'webhooks dead-letters show',
  needs: [],
  args: parkedFilter,
  async run({ platform }, filter) {
    const shown = await showParkedDeliveries(dependenciesOf(platform), filter, shownMax)
    if (shown.length === 0) throw noneFound()
    return { dead_letters: shown }
  },
})

export const deliveriesReplayOperation = defineOperation({
  name: 'webhooks dead-letters replay',
  needs: [],
  args: parkedFilter,
  async run({ platform }, filter) {
    const dependencies = dependenciesOf(platform)
    const { path, names } = namedTargets(platform.env)
    const letters = await matching(dependencies, filter)
    const wanted = letters.filter(({ target }) => names === null || names.has(target))
    const parts = { ...dependencies, relational: platform.engines.relational }
    const replayed = new Map(
      (
        await replayDeliveries(
          parts,
          wanted.map(({ key }) => key),
        )
      ).map((one) => [one.key, one]),
    )
    const results = letters.map(({ target, sequence, key }): Treated => {
      const one = replayed.get(key)
      if (one?.status === 'replayed') return { target, sequence, key, status: 'replayed' }
      const code = one?.code ?? 'conflict'
      // The courier would park it again.
      const message =
        one?.message ?? `${target} does not stand in ${path} any more: add it again, or discard.`
      return { target, sequence, key, status: 'refused', code, message }
    })
    return { results }
  },
})

export const deliveriesDiscardOperation = defineOperation({
  name: 'webhooks dead-letters discard',
  needs: [],
  args: parkedFilter,
  async run({ platform }, filter) {
    const dependencies = dependenciesOf(platform)
    const letters = await matching(dependencies, filter)
    await discardParkedDeliveries(dependencies, letters)
    const results = letters.map(
      ({ target, sequence, key }): Treated => ({ target, sequence, key, status: 'discarded' }),
    )
    return { results }
  },
})

function dependenciesOf(platform: Platform): DeadLetterDependencies {
  return { eventLog: platform.engines.eventLog, codec: platform.codec, publisher: platform.publisher }
}

/** Those that match, at least one; each target's in the order of its sequences. */
async function matching(
  dependencies: DeadLetterDependencies,
  filter: ParkedFilter,
): Promise<ParkedDelivery[]> {
  const letters = await listParkedDeliveries(dependencies, filter)
  if (letters.length === 0) throw noneFound()
  return letters
}

function noneFound(): AppError {
  return new AppError(
    'dead_letter_not_found',
    'There is no such dead letter; `flotilla webhooks dead-letters list` shows all.',
  )
}
