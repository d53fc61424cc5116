/** `flotilla rebuild vectors|relational|notes`: fills again what is derived, while writes and searches go on. */

import type { Command as Program } from 'commander'
import { rebuildRelationalOperation, rebuildVectorsOperation } from '#operations/rebuild.ts'
import { rebuildNotesOperation } from '#operations/rebuild-notes.ts'
import { type Cli, describe } from '../cli.ts'
import { line } from '../output.ts'

export function registerRebuild(program: Program, cli: Cli): void {
  const rebuild = program.command('rebuild').description('rebuild an index, or the points of notes')
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
            line`${index} rebuilt: generation ${generation}, ${took_ms} ms`,
        },
      )
    })
  }
  const notes = rebuild
    .command('notes')
    .description('publish every note once more, so that all their points in fleet_notes are written again')
  describe(notes, 'flotilla rebuild notes').action(async ({ json }: { json?: boolean }) => {
    const render = ({ records, took_ms }: { records: number; took_ms: number }) =>
      line`${records} notes published again, ${took_ms} ms`
    await cli.run(rebuildNotesOperation, {}, { json, render })
  })
}
