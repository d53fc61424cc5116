/** `flotilla topics`: look into a topic, and give it more partitions. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import { growTopicOperation } from '#operations/grow.ts'
import { catalog } from '#topics/catalog.ts'
import { type Cli, describe } from '../cli.ts'
import { line } from '../output.ts'
import { registerTopicsTail } from './topics-tail.ts'

export function registerTopics(program: Program, cli: Cli): void {
  const topics = program.command('topics').description('the topics of the log')
  registerTopicsTail(topics, cli)
  const grow = topics
    .command('grow')
    .argument('<topic>', `of: ${catalog.map((topic) => topic.name).join(', ')}`)
    .description('add partitions; the platform must be stopped, and its workers must have read everything')
    .requiredOption('--partitions <count>', 'the new number', count)
  describe(grow, 'flotilla topics grow vectors.commands --partitions 24').action(
    async (topic: string, { partitions, json }: { partitions: number; json?: boolean }) => {
      await cli.run(
        growTopicOperation,
        { topic, partitions },
        {
          json,
          render: (result) =>
            line`${result.topic} has ${result.partitions} partitions (${result.physical_name}, epoch ${result.epoch})`,
        },
      )
    },
  )
}

function count(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number from 1.')
}
