/** `flotilla topics`: the newest records of a topic, decoded; and more partitions for one. */

import type { Command as Program } from 'commander'
import { topicActions } from '#operations/topics-list.ts'
import { lastMax, tailTopicOperation } from '#operations/topics-tail.ts'
import type { ShownRecord } from '#runtime/follow/show-record.ts'
import { catalog } from '#topics/catalog.ts'
import { type Cli, describe, numberReader, withWide } from '../cli.ts'
import { type Screen, shortened } from '../layout.ts'
import { mountActions } from '../mount-actions.ts'
import { oneLine, visibleJson } from '../output.ts'

interface TailOptions {
  last: number
  follow: boolean
  key?: string
  json?: boolean
  wide?: boolean
}

const count = numberReader(0, lastMax)

export function registerTopics(program: Program, cli: Cli): void {
  const topics = program
    .command('topics')
    .description('list topics, show their records as they come, add partitions')
  const tail = topics
    .command('tail')
    .argument('<topic>', `of: ${catalog.map((topic) => topic.name).join(', ')}`)
    .description('the newest records, decoded, and what comes after them')
    .option('--last <count>', 'how many of the newest come first', count, 10)
    .option('--key <key>', 'only records with this key')
    .option('--no-follow', 'stop after what is there now (--json always does)')
  describe(withWide(tail), 'flotilla topics tail audit.events --last 3').action(
    async (topic: string, { last, follow, key, json, wide }: TailOptions) => {
      const args = { topic, last, follow: follow && !json, ...(key === undefined ? {} : { key }) }
      const printing = {
        json,
        wide,
        endless: args.follow,
        item: shown,
        render: ({ records }: { records: ShownRecord[] }, screen: Screen) =>
          records.map((record) => shown(record, screen)),
      }
      await cli.run(tailTopicOperation, args, printing)
    },
  )
  mountActions(topics, cli, topicActions)
}

/** The whole record, or as much of it as a line of the terminal takes. */
function shown(record: ShownRecord, { columns, now }: Screen): string {
  if (now === undefined) return visibleJson(JSON.stringify(record))
  const { partition, offset, timestamp, key, value, fault } = record
  const what = fault ?? membersOf(value)
  return shortened(
    oneLine(`${clockOf(timestamp, now)}  ${partition}/${offset}  ${key ?? '-'}  ${what}`),
    columns,
  )
}

/** Ids and times come last: a line has no room for all. */
function membersOf(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const isLast = ([name]: [string, unknown]) => /(?:^|_)(?:id|at)$/.test(name)
  return Object.entries(value)
    .sort((a, b) => Number(isLast(a)) - Number(isLast(b)))
    .map(([name, member]) => `${name}=${typeof member === 'string' ? member : JSON.stringify(member)}`)
    .join(' ')
}

/** Today's have the time alone. */
function clockOf(timestamp: string, now: number): string {
  const [at, today] = [new Date(timestamp), new Date(now)]
  const time = at.toTimeString().slice(0, 8)
  if (at.toDateString() === today.toDateString()) return time
  return `${at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })} ${time}`
}
