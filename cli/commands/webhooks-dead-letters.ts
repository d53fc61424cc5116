/** `flotilla webhooks dead-letters`: deliveries that were given up, and what becomes of them. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import type { ParkedDelivery, ParkedFilter } from '#operations/webhooks/dead-letters.ts'
import {
  deliveriesDiscardOperation,
  deliveriesListOperation,
  deliveriesReplayOperation,
  deliveriesShowOperation,
  type ShownDelivery,
  type Treated,
} from '#operations/webhooks/letters.ts'
import { type Cli, describe } from '../cli.ts'
import { table } from '../output.ts'

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
      await cli.run(deliveriesListOperation, filter, { json, render })
    },
  )
  const show = filtered(
    letters.command('show').description('with their bodies, as the receiver would get them'),
  )
  describe(show, 'flotilla webhooks dead-letters show --target audit-log --sequence 120').action(
    async ({ json, ...filter }: Options) => {
      const render = ({ dead_letters }: { dead_letters: ShownDelivery[] }) =>
        dead_letters.map((letter) => JSON.stringify(letter, null, 2)).join('\n')
      await cli.run(deliveriesShowOperation, filter, { json, render })
    },
  )
  const replay = treating(
    letters.command('replay').description('deliver them again, behind what waits, under their old sequences'),
  )
  describe(replay, 'flotilla webhooks dead-letters replay --target audit-log').action(
    async ({ json, ...options }: Options) => {
      const printing = { json, render: renderResults }
      finish(cli, await cli.run(deliveriesReplayOperation, chosen(options), printing))
    },
  )
  const discarding = treating(letters.command('discard').description('remove them for good'))
  describe(discarding, 'flotilla webhooks dead-letters discard --target audit-log --sequence 120').action(
    async ({ json, ...options }: Options) => {
      const printing = { json, render: renderResults }
      finish(cli, await cli.run(deliveriesDiscardOperation, chosen(options), printing))
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
