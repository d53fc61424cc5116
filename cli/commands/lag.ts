/** `flotilla lag`: how far each reader group is behind. */

import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { type Shown, tableOf } from '#operations/action.ts'
import { type GroupLag, type LagResult, lagOperation } from '#operations/lag.ts'
import { type Cli, describe, withWide } from '../cli.ts'
import { clearScreen, line } from '../output.ts'

export function registerLag(program: Program, cli: Cli): void {
  const lag = program
    .command('lag')
    .description('how many records each reader group has still to read')
    .option('--watch', 'refresh once a second until Ctrl-C')
  describe(withWide(lag), 'flotilla lag --watch').action(
    async ({ watch = false, json, wide }: LagOptions) => {
      if (watch && json) {
        throw new AppError('bad_request', '--json prints one document: leave --watch out.')
      }
      const printing = {
        json,
        wide,
        endless: watch,
        item(value: LagResult) {
          clearScreen()
          return render(value)
        },
        render: (result: LagResult) => (watch ? '' : render(result)),
      }
      await cli.run(lagOperation, { watch }, printing)
    },
  )
}

interface LagOptions {
  watch?: boolean
  json?: boolean
  wide?: boolean
}

function render(result: LagResult): Shown {
  const groups = tableOf(result.groups, {
    group: ({ group }) => group,
    topic: ({ topic }) => topic,
    members: ({ members }) => members,
    lag: ({ lag }) => lag,
  })
  const expired = result.groups.flatMap(expiredLine)
  const resting = result.groups.flatMap(restLine)
  const stuck = result.groups.flatMap((one) => one.stuck.map((record) => stuckLine(one.group, record)))
  const notes = [...expired, ...resting, ...stuck]
  return [result.as_of, groups, ...notes]
}

/** Not counted in the lag: they cannot be read any more. */
function expiredLine({ group, topic, partitions }: GroupLag): string[] {
  const records = partitions.reduce((sum, { expired }) => sum + expired, 0)
  return records === 0 ? [] : [line`${group}: ${records} records of ${topic} expired before it read them`]
}

/** A lag by design. */
function restLine({ group, rests }: GroupLag): string[] {
  if (rests === 'off') return [line`${group} reads nothing by design: MIRROR=off`]
  return rests === 'asleep' ? [line`${group} sleeps until a search-pg asks: its lag is by design`] : []
}

function stuckLine(group: string, { partition, offset, key, reason, skip }: GroupLag['stuck'][number]) {
  const what = line`${group} is stuck at ${partition}/${offset} (${key}): ${reason ?? 'not reached yet'}`
  if (skip) return `${what}; marked to be passed`
  return line`${what}; to pass it: flotilla groups skip ${group} --partition ${partition} --offset ${offset}`
}
