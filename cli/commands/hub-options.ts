/** Options that the commands of notes and goals share. */

import { InvalidArgumentError, Option, type Command as Program } from 'commander'
import { priorities } from '#services/records/store/kind.ts'

const limitMax = 1_000

export interface ListOptions {
  json?: boolean
  status?: string
  priority?: string
  author?: string
  limit?: number
}

export function listOptions(command: Program, statuses: readonly string[]): Program {
  return command
    .addOption(new Option('--status <status>', 'only these').choices(statuses))
    .addOption(priorityOption('only these'))
    .option('--author <author>', 'only those of this agent, or person by uid')
    .option('--limit <count>', `at most so many, from 1 to ${limitMax}; default 100`, limitOf)
}

export function priorityOption(what: string): Option {
  return new Option('--priority <priority>', what).choices(priorities)
}

/** Throws InvalidArgumentError. */
export function idOf(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number from 1.')
}

function limitOf(text: string): number {
  const limit = idOf(text)
  if (limit <= limitMax) return limit
  throw new InvalidArgumentError(`It must be a whole number from 1 to ${limitMax}.`)
}
