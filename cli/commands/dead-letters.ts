/** `flotilla dead-letters`: what the workers gave up on, and what becomes of it. */

import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import {
  deadLettersDiscardOperation,
  deadLettersListOperation,
  deadLettersReplayOperation,
  deadLettersShowOperation,
  type Filter,
  type Letter,
  type Treated,
} from '#operations/dead-letters.ts'
import { type Cli, describe } from '../cli.ts'
import { table } from '../output.ts'

type Options = Filter & { json?: boolean }

export function registerDeadLetters(program: Program, cli: Cli): void {
  const letters = program.command('dead-letters').description('records that a worker gave up on, and why')
  const list = filtered(letters.command('list').description('all, oldest first'))
  describe(list, 'flotilla dead-letters list --topic vectors.commands').action(
    async ({ json, ...filter }: Options) => {
      await cli.run(deadLettersListOperation, filter, {
        json,
        render: (result) => renderList(result.dead_letters),
      })
    },
  )
  const show = filtered(letters.command('show').description('with their values, decoded'))
  describe(show, 'flotilla dead-letters show --key vector-writer/3/120').action(
    async ({ json, ...filter }: Options) => {
      await cli.run(deadLettersShowOperation, named(filter), {
        json,
        render: (result) => result.dead_letters.map((letter) => JSON.stringify(letter, null, 2)).join('\n'),
      })
    },
  )
  const replay = filtered(
    letters.command('replay').description('into their topic again, behind what came later'),
  )
  describe(replay, 'flotilla dead-letters replay --topic audit.events').action(
    async ({ json, ...filter }: Options) => {
      finish(cli, await cli.run(deadLettersReplayOperation, named(filter), { json, render: renderResults }))
    },
  )
  const discard = filtered(letters.command('discard').description('remove them for good'))
  describe(discard, 'flotilla dead-letters discard --key vector-writer/3/120').action(
    async ({ json, ...filter }: Options) => {
      finish(cli, await cli.run(deadLettersDiscardOperation, named(filter), { json, render: renderResults }))
    },
  )
}

function filtered(command: Program): Program {
  return command
    .option('--topic <topic>', 'only those of this topic')
    .option('--key <key>', "a record's key, or <group>/<partition>/<offset> of one dead letter")
}

/** Whoever changes something says what. */
function named(filter: Filter): Filter {
  if (filter.topic !== undefined || filter.key !== undefined) return filter
  throw new AppError('bad_request', 'Say which ones: --topic, --key, or both.')
}

function finish(cli: Cli, { results }: { results: Treated[] }): void {
  if (results.some((result) => result.status === 'refused')) cli.setExitCode(1)
}

function renderList(letters: Letter[]): string {
  if (letters.length === 0) return 'no dead letters'
  const rows = letters.map(({ topic, key, recordKey, attempts, parkedAt, reason }) => {
    return [topic, key, recordKey, attempts, parkedAt, reason.slice(0, 80)]
  })
  return table(['topic', 'name', 'record key', 'attempts', 'parked', 'why'], rows)
}

function renderResults({ results }: { results: Treated[] }): string {
  const rows = results.map(({ topic, key, status, message }) => [topic, key, status, message ?? ''])
  return table(['topic', 'name', '', 'why'], rows)
}
