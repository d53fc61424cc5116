/** `flotilla groups reset` and `skip`: sets where a reader group continues; passes one record of an index writer. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type ResetArgs, resetGroupOperation } from '#operations/groups.ts'
import { type SkipRecordResult, skipRecordOperation } from '#operations/groups-skip.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { line, table } from '../output.ts'

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
  const skip = groups
    .command('skip')
    .argument('<group>', 'of the writer of an index')
    .description('park a record that never gets through, so that its writer continues; its operation fails')
    .requiredOption('--partition <number>', 'its partition', partitionNumber)
    .requiredOption('--offset <number>', 'its offset, as `flotilla lag` shows it', offsetNumber)
  describe(skip, 'flotilla groups skip vector-writer --partition 3 --offset 1742').action(
    async (group: string, options: { partition: number; offset: number; json?: boolean }) => {
      const { partition, offset, json } = options
      const args = { group, partition, offset }
      const { outcome } = await cli.run(skipRecordOperation, args, { json, render: renderSkip })
      if (outcome === 'waiting') cli.setExitCode(exitRefused)
    },
  )
}

function renderSkip(result: SkipRecordResult): string {
  const { group, partition, offset, key, operation, outcome, dead_letter: letter } = result
  const what = line`${group}: ${partition}/${offset} (${key})`
  if (outcome === 'parked') {
    const failed = operation === null ? '' : `, and its operation ${operation} failed`
    return line`${what} is passed: it is now the dead letter ${letter}${failed}`
  }
  if (outcome === 'applied') return `${what} got through before it could be passed`
  return `${what} is marked; it is passed as soon as a writer comes to it`
}

function position(text: string): ResetArgs['to'] {
  if (text === 'beginning' || text === 'end') return text
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be beginning, end, or an offset.')
}

function offsetNumber(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be an offset.')
}

function partitionNumber(text: string): number {
  if (/^\d{1,6}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}
