/** `flotilla rebuild vectors|relational`: rebuilds an index from the log, while writes and searches go on. */

import type { Command as Program } from 'commander'
import { rebuildRelationalOperation, rebuildVectorsOperation } from '#operations/rebuild.ts'
import { type Cli, describe } from '../cli.ts'

export function registerRebuild(program: Program, cli: Cli): void {
  const rebuild = program.command('rebuild').description('rebuild an index from the log')
  const kinds = [
    { command: rebuildVectorsOperation, name: 'vectors', what: 'a new vector index' },
    { command: rebuildRelationalOperation, name: 'relational', what: 'new tables of the relational mirror' },
  ]
  for (const { command, name, what } of kinds) {
    const verb = rebuild
      .command(name)
      .description(
        `fill ${what} from the log while the old one stays in use, then switch over; ` +
          'run again, it shows the rebuild in progress',
      )
    describe(verb, `flotilla rebuild ${name}`).action(async ({ json }: { json?: boolean }) => {
      await cli.run(
        command,
        {},
        {
          json,
          item: (hint: string) => hint,
          render: ({ index, generation, took_ms }) =>
            `${index} rebuilt: generation ${generation}, ${took_ms} ms`,
        },
      )
    })
  }
}
