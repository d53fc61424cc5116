/** `flotilla dead-letters`: what the workers gave up on, in every topic. */

import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { recordLetters } from '#operations/record-letters.ts'
import type { Cli } from '../cli.ts'
import { registerLetterCommands } from './letter-commands.ts'

interface Options {
  topic?: string
  key?: string
  json?: boolean
}

export function registerDeadLetters(program: Program, cli: Cli): void {
  const letters = program.command('dead-letters').description('records that a worker gave up on, and why')
  registerLetterCommands(letters, cli, {
    operations: recordLetters,
    help: {
      list: { text: 'all, oldest first', example: 'flotilla dead-letters list --topic vectors.commands' },
      show: {
        text: 'with their values, decoded',
        example: 'flotilla dead-letters show --key vector-writer/3/120',
      },
      replay: {
        text: 'into their topic again, behind what came later',
        example: 'flotilla dead-letters replay --topic audit.events',
      },
      discard: {
        text: 'remove them for good',
        example: 'flotilla dead-letters discard --key vector-writer/3/120',
      },
    },
    addOptions: (command) =>
      command
        .option('--topic <topic>', 'only those of this topic')
        .option('--key <key>', "a record's key, or the name of one dead letter"),
    filterOf({ json: _, ...filter }: Options, verb) {
      if (verb === 'list' || filter.topic !== undefined || filter.key !== undefined) return filter
      throw new AppError('bad_request', 'Say which ones: --topic, --key, or both.')
    },
    columns: {
      topic: ({ topic }) => topic,
      name: ({ key }) => key,
      'record key': ({ recordKey }) => recordKey,
      attempts: ({ attempts }) => attempts,
      parked: ({ parkedAt }) => parkedAt,
      why: ({ reason }) => reason.slice(0, 80),
    },
    nameColumns: { topic: ({ topic }) => topic, name: ({ key }) => key },
  })
}
