/** `flotilla topics`: the newest records of a topic, decoded; and more partitions for one. */

import type { Command as Program } from 'commander'
import { topicActions } from '#operations/topics-list.ts'
import { lastMax, tailTopicOperation } from '#operations/topics-tail.ts'
import type { ShownRecord } from '#runtime/follow/show-record.ts'
import { catalog } from '#topics/catalog.ts'
import { type Cli, describe, numberReader } from '../cli.ts'
import { mountActions } from '../mount-actions.ts'
import { visibleJson } from '../output.ts'

interface TailOptions {
  last: number
  follow: boolean
  key?: string
  json?: boolean
}

const count = numberReader(`It must be a whole number, at most ${lastMax}.`, 0, lastMax)

export function registerTopics(program: Program, cli: Cli): void {
  const topics = program.command('topics').description('the topics of the log')
  const tail = topics
    .command('tail')
    .argument('<topic>', `of: ${catalog.map((topic) => topic.name).join(', ')}`)
    .description('the newest records, decoded, and what comes after them')
    .option('--last <count>', 'how many of the newest come first', count, 10)
    .option('--key <key>', 'only records with this key')
    .option('--no-follow', 'stop after what is there now (--json always does)')
  describe(tail, 'flotilla topics tail audit.events --last 3').action(
    async (topic: string, { last, follow, key, json }: TailOptions) => {
      const args = { topic, last, follow: follow && !json, ...(key === undefined ? {} : { key }) }
      const printing = {
        json,
        endless: args.follow,
        item: shown,
        render: ({ records }: { records: ShownRecord[] }) => records.map(shown).join('\n'),
      }
      await cli.run(tailTopicOperation, args, printing)
    },
  )
  mountActions(topics, cli, topicActions)
}

const shown = (record: ShownRecord) => visibleJson(JSON.stringify(record))
