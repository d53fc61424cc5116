/** `flotilla lag`: how far each reader group is behind. */

import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type GroupLag, type LagResult, lagOperation } from '#operations/lag.ts'
import { type Cli, describe } from '../cli.ts'
import { clearScreen, line, table } from '../output.ts'

export function registerLag(program: Program, cli: Cli): void {
  const lag = program
    .command('lag')
    .description('how many records each reader group has still to read')
    .option('--watch', 'refresh once a second until Ctrl-C')
  describe(lag, 'flotilla lag --watch').action(async (options: { watch?: boolean; json?: boolean }) => {
    const { watch = false } = options
    if (watch && options.json) {
      throw new AppError('bad_request', '--json prints one document: leave --watch out.')
    }
    const printing = {
      json: options.json,
      endless: watch,
      item(value: LagResult) {
        clearScreen()
        return render(value)
      },
      render: (result: LagResult) => (watch ? '' : render(result)),
    }
    await cli.run(lagOperation, { watch }, printing)
  })
}

function render(result: LagResult): string {
  const rows = result.groups.map((group) => [group.group, group.topic, group.members, group.lag])
  const expired = result.groups.flatMap(expiredLine)
  const stuck = result.groups.flatMap((one) => one.stuck.map((record) => stuckLine(one.group, record)))
  return [result.as_of, table(['group', 'topic', 'members', 'lag'], rows), ...expired, ...stuck].join('\n')
}

/** Not counted in the lag: they cannot be read any more. */
function expiredLine({ group, topic, partitions }: GroupLag): string[] {
  const records = partitions.reduce((sum, { expired }) => sum + expired, 0)
  return records === 0 ? [] : [line`${group}: ${records} records of ${topic} expired before it read them`]
}

function stuckLine(group: string, { partition, offset, key, reason, skip }: GroupLag['stuck'][number]) {
  const what = line`${group} is stuck at ${partition}/${offset} (${key}): ${reason ?? 'not reached yet'}`
  if (skip) return `${what}; marked to be passed`
  return line`${what}; to pass it: flotilla groups skip ${group} --partition ${partition} --offset ${offset}`
}
