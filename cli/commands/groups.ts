/** `flotilla groups reset`: where a reader group goes on. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { groupsOf } from '#operations/lag.ts'
import { type Cli, describe } from '../cli.ts'
import { defineCommand } from '../command.ts'
import { table } from '../output.ts'

interface ResetArgs {
  group: string
  to: 'beginning' | 'end' | number
  partition?: number
}

interface ResetResult {
  group: string
  topic: string
  positions: { partition: number; offset: number }[]
}

export const groupsResetCommand = defineCommand<ResetArgs, ResetResult>({
  name: 'groups reset',
  needs: [],
  async run({ platform }, { group, to, partition }) {
    const { eventLog, relational } = platform.engines
    const groups = await groupsOf(relational)
    const known = groups.find((one) => one.group === group)
    if (!known) {
      const names = groups.map((one) => one.group).join(', ')
      throw new AppError('not_found', `There is no group named ${group}. There are: ${names}.`)
    }
    const physicalName = platform.places.get(known.topic)?.physicalName ?? known.topic
    const ranges = (await eventLog.offsets(physicalName)).filter(
      (range) => partition === undefined || range.partition === partition,
    )
    if (ranges.length === 0) throw new AppError('not_found', `${known.topic} has no partition ${partition}.`)
    const positions = ranges.map(({ partition, start, end }) => {
      const offset = to === 'beginning' ? start : to === 'end' ? end : to
      if (offset < start || offset > end) {
        throw new AppError('bad_request', `Partition ${partition} holds the offsets ${start} to ${end}.`)
      }
      return { partition, offset }
    })
    await eventLog.setPositions(group, physicalName, positions)
    return { group, topic: known.topic, positions }
  },
})

export function registerGroups(program: Program, cli: Cli): void {
  const groups = program.command('groups').description('the reader groups of the log')
  const reset = groups
    .command('reset')
    .argument('<group>')
    .description('where a group goes on reading; refused while it has members (stop its service first)')
    .requiredOption('--to <position>', 'beginning, end, or an offset', position)
    .option('--partition <number>', 'only this partition', partitionNumber)
  describe(reset, 'flotilla groups reset audit-writer --to beginning').action(
    async (group: string, options: { to: ResetArgs['to']; partition?: number; json?: boolean }) => {
      const { to, partition, json } = options
      if (typeof to === 'number' && partition === undefined) {
        throw new AppError('bad_request', 'An offset belongs to one partition: name it with --partition.')
      }
      const args = { group, to, ...(partition === undefined ? {} : { partition }) }
      await cli.run(groupsResetCommand, args, {
        json,
        render: (result) =>
          table(
            ['partition', 'goes on at'],
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
