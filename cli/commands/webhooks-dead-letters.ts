/** `flotilla webhooks dead-letters`: deliveries that were given up, by target and sequence. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { deliveryLetters } from '#operations/webhooks/delivery-letters.ts'
import type { Cli } from '../cli.ts'
import { registerLetterCommands } from './letter-commands.ts'

interface Options {
  target?: string
  sequence?: number
  all?: boolean
  json?: boolean
}

export function registerWebhooksDeadLetters(webhooks: Program, cli: Cli): void {
  const letters = webhooks.command('dead-letters').description('deliveries that were given up, and why')
  registerLetterCommands(letters, cli, {
    operations: deliveryLetters,
    help: {
      list: {
        text: "each target's in its order",
        example: 'flotilla webhooks dead-letters list --target audit-log',
      },
      show: {
        text: 'with their bodies, as the receiver would get them',
        example: 'flotilla webhooks dead-letters show --target audit-log --sequence 120',
      },
      replay: {
        text: 'deliver them again, behind what waits, under their old sequences',
        example: 'flotilla webhooks dead-letters replay --target audit-log',
      },
      discard: {
        text: 'remove them for good',
        example: 'flotilla webhooks dead-letters discard --target audit-log --sequence 120',
      },
    },
    addOptions(command, verb) {
      command
        .option('--target <name>', 'only those of this target')
        .option('--sequence <number>', 'only the one with this X-Sequence', sequence)
      return isReading(verb) ? command : command.option('--all', 'those of every target')
    },
    filterOf({ json: _, all, ...filter }: Options, verb) {
      if (isReading(verb)) return filter
      if (all) {
        if (filter.target === undefined && filter.sequence === undefined) return {}
        throw new AppError('bad_request', '--all goes without --target and --sequence.')
      }
      if (filter.target !== undefined) return filter
      throw new AppError('bad_request', 'Say which ones: --target (perhaps with --sequence), or --all.')
    },
    columns: {
      target: ({ target }) => target,
      sequence: ({ sequence }) => sequence,
      event: ({ event }) => event,
      agent: ({ agent }) => agent,
      task: ({ task_id }) => task_id?.slice(0, 40) ?? null,
      attempts: ({ attempts }) => attempts,
      parked: ({ parked_at }) => parked_at,
      why: ({ reason }) => reason.slice(0, 80),
    },
    nameColumns: { target: ({ target }) => target, sequence: ({ sequence }) => sequence },
  })
}

function isReading(verb: string): boolean {
  return verb === 'list' || verb === 'show'
}

function sequence(text: string): number {
  const number = Number(text)
  if (/^\d{1,16}$/.test(text) && Number.isSafeInteger(number)) return number
  throw new InvalidArgumentError('It must be a whole number.')
}
