/** `flotilla webhooks dead-letters`: deliveries that were given up, and what becomes of them. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import {
  discardParkedDeliveries,
  listParkedDeliveries,
  type ParkedDelivery,
  type ParkedFilter,
  showParkedDeliveries,
} from '#operations/webhooks/dead-letters.ts'
import { replayDeliveries } from '#operations/webhooks/replay.ts'
import type { DeadLetterDependencies } from '#runtime/dead-letters.ts'
import type { Platform } from '#runtime/platform.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { table } from '../output.ts'
import { namedTargets } from './webhooks-names.ts'

/** Bodies that are shown at once. */
const shownMax = 100

type ShownDelivery = ParkedDelivery & { body: unknown }

interface Treated {
  target: string
  sequence: number | null
  key: string
  status: 'replayed' | 'discarded' | 'refused'
  code?: string
  message?: string
}

export const webhooksLettersListCommand = defineCommand<ParkedFilter, { dead_letters: ParkedDelivery[] }>({
  name: 'webhooks dead-letters list',
  needs: [],
  async run({ platform }, filter) {
    return { dead_letters: await listParkedDeliveries(dependenciesOf(platform), filter) }
  },
})

export const webhooksLettersShowCommand = defineCommand<ParkedFilter, { dead_letters: ShownDelivery[] }>({
  name: 'webhooks dead-letters show',
  needs: [],
  async run({ platform }, filter) {
    const shown = await showParkedDeliveries(dependenciesOf(platform), filter, shownMax)
    if (shown.length === 0) throw noneFound()
    return { dead_letters: shown }
  },
})

export const webhooksLettersReplayCommand = defineCommand<ParkedFilter, { results: Treated[] }>({
  name: 'webhooks dead-letters replay',
  needs: [],
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

export const webhooksLettersDiscardCommand = defineCommand<ParkedFilter, { results: Treated[] }>({
  name: 'webhooks dead-letters discard',
  needs: [],
  async run({ platform }, filter) {
    const dependencies = dependenciesOf(platform)
    const letters = await matching(dependencies, filter)
    await discardParkedDeliveries(dependencies, letters)
    return {
      results: letters.map(({ target, sequence, key }) => ({ target, sequence, key, status: 'discarded' })),
    }
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

interface Options extends ParkedFilter {
  all?: boolean
  json?: boolean
}

export function registerWebhooksDeadLetters(webhooks: Program, cli: Cli): void {
  const letters = webhooks.command('dead-letters').description('deliveries that were given up, and why')
  const list = filtered(letters.command('list').description("each target's in its order"))
  describe(list, 'flotilla webhooks dead-letters list --target audit-log').action(
    async ({ json, ...filter }: Options) => {
      const render = ({ dead_letters }: { dead_letters: ParkedDelivery[] }) => renderList(dead_letters)
      await cli.run(webhooksLettersListCommand, filter, { json, render })
    },
  )
  const show = filtered(
    letters.command('show').description('with their bodies, as the receiver would get them'),
  )
  describe(show, 'flotilla webhooks dead-letters show --target audit-log --sequence 120').action(
    async ({ json, ...filter }: Options) => {
      const render = ({ dead_letters }: { dead_letters: ShownDelivery[] }) =>
        dead_letters.map((letter) => JSON.stringify(letter, null, 2)).join('\n')
      await cli.run(webhooksLettersShowCommand, filter, { json, render })
    },
  )
  const replay = treating(
    letters.command('replay').description('deliver them again, behind what waits, under their old sequences'),
  )
  describe(replay, 'flotilla webhooks dead-letters replay --target audit-log').action(
    async ({ json, ...options }: Options) => {
      const printing = { json, render: renderResults }
      finish(cli, await cli.run(webhooksLettersReplayCommand, chosen(options), printing))
    },
  )
  const discarding = treating(letters.command('discard').description('remove them for good'))
  describe(discarding, 'flotilla webhooks dead-letters discard --target audit-log --sequence 120').action(
    async ({ json, ...options }: Options) => {
      const printing = { json, render: renderResults }
      finish(cli, await cli.run(webhooksLettersDiscardCommand, chosen(options), printing))
    },
  )
}

function filtered(command: Program): Program {
  return command
    .option('--target <name>', 'only those of this target')
    .option('--sequence <number>', 'only the one with this X-Sequence', sequence)
}

function treating(command: Program): Program {
  return filtered(command).option('--all', 'those of every target')
}

/** Whoever changes something says what. */
function chosen({ all, ...filter }: Options): ParkedFilter {
  if (all === true) {
    if (filter.target === undefined && filter.sequence === undefined) return {}
    throw new AppError('bad_request', '--all goes without --target and --sequence.')
  }
  if (filter.target !== undefined) return filter
  throw new AppError('bad_request', 'Say which ones: --target (perhaps with --sequence), or --all.')
}

function finish(cli: Cli, { results }: { results: Treated[] }): void {
  if (results.some((result) => result.status === 'refused')) cli.setExitCode(1)
}

function renderList(letters: ParkedDelivery[]): string {
  if (letters.length === 0) return 'no dead letters'
  const rows = letters.map((one) => [
    one.target,
    one.sequence,
    one.event,
    one.agent,
    one.task_id?.slice(0, 40) ?? null,
    one.attempts,
    one.parked_at,
    one.reason.slice(0, 80),
  ])
  return table(['target', 'sequence', 'event', 'agent', 'task', 'attempts', 'parked', 'why'], rows)
}

function renderResults({ results }: { results: Treated[] }): string {
  const rows = results.map(({ target, sequence: number, status, message }) => [
    target,
    number,
    status,
    message ?? '',
  ])
  return table(['target', 'sequence', '', 'why'], rows)
}

function sequence(text: string): number {
  const number = Number(text)
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(number)) return number
  throw new InvalidArgumentError('It must be a whole number.')
}
