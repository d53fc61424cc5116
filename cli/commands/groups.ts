/** `flotilla groups reset`: sets where a reader group continues. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type ResetArgs, resetGroupOperation } from '#operations/groups.ts'
import { type Cli, describe } from '../cli.ts'
import { table } from '../output.ts'

export function registerGroups(program: Program, cli: Cli): void {
  const groups = program.command('groups').description('the reader groups of the log')
  const reset = groups
    .command('reset')
    .argument('<group>')
    .description('set where a group continues to read; refused while it has members (stop its service first)')
    .requiredOption('--to <position>', 'beginning, end, or an offset', position)
    .option('--partition <number>', 'only this partition', partitionNumber)
  describe(reset, 'flotilla groups reset audit-writer --to beginning').action(
    async (group: string, options: { to: ResetArgs['to']; partition?: number; json?: boolean }) => {
      const { to, partition, json } = options
      if (typeof to === 'number' && partition === undefined) {
        throw new AppError('bad_request', 'An offset belongs to one partition: name it with --partition.')
      }
      const args = { group, to, ...(partition === undefined ? {} : { partition }) }
      await cli.run(resetGroupOperation, args, {
        json,
        render: (result) =>
          table(
            ['partition', 'continues at'],
            result.positions.map((one) => [one.partition, one.offset]),
          ),
      })
    },
  )
}

function position(text: string): ResetArgs['to'] {
  if (text === 'beginning' || text === 'end') return text
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be beginning, end, or an offset.')
}

function partitionNumber(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}
