/** The verbs list, show, replay and discard, registered once for every kind of dead letters. */

import type { Command as Program } from 'commander'
import type { Static, TObject } from 'typebox'
import type { LetterOutcome } from '#operations/dead-letters.ts'
import type { Operation } from '#operations/operation.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { table, visibleJson } from '../output.ts'

export type LetterVerb = 'list' | 'show' | 'replay' | 'discard'

type Cell = string | number | null
type Results<N> = { results: (N & LetterOutcome)[] }

/** `F` is the schema of the filter, `O` what commander read, `L` a letter in a list, `N` what names it in results. */
export interface LetterCommands<F extends TObject, O, L, N> {
  operations: {
    list: Operation<F, { dead_letters: L[] }, never>
    show: Operation<F, { dead_letters: L[] }, never>
    replay: Operation<F, Results<N>, never>
    discard: Operation<F, Results<N>, never>
  }
  help: Record<LetterVerb, { text: string; example: string }>
  addOptions(command: Program, verb: LetterVerb): Program
  /** Throws AppError `bad_request` where the options do not say clearly enough which letters are meant. */
  filterOf(options: O, verb: LetterVerb): Static<F>
  columns: Record<string, (letter: L) => Cell>
  nameColumns: Record<string, (result: N) => Cell>
}

/** Adds the four verbs to a noun. Exit code 1 when one of several letters is refused. */
export function registerLetterCommands<F extends TObject, O extends { json?: boolean }, L, N>(
  noun: Program,
  cli: Cli,
  commands: LetterCommands<F, O, L, N>,
): void {
  const { operations, help, addOptions, filterOf, columns, nameColumns } = commands
  const register = (
    verb: LetterVerb,
    act: (filter: Static<F>, json: boolean | undefined) => Promise<void>,
  ) => {
    const command = addOptions(noun.command(verb).description(help[verb].text), verb)
    describe(command, help[verb].example).action((options: O) => act(filterOf(options, verb), options.json))
  }
  register('list', async (filter, json) => {
    const render = ({ dead_letters: letters }: { dead_letters: L[] }) =>
      letters.length === 0 ? 'no dead letters' : tableOf(columns, letters)
    await cli.run(operations.list, filter, { json, render })
  })
  register('show', async (filter, json) => {
    const render = ({ dead_letters: letters }: { dead_letters: L[] }) =>
      letters.map((letter) => visibleJson(JSON.stringify(letter, null, 2))).join('\n')
    await cli.run(operations.show, filter, { json, render })
  })
  const treat = (operation: Operation<F, Results<N>, never>) => {
    return async (filter: Static<F>, json: boolean | undefined) => {
      const outcome = { '': statusOf, why: whyOf }
      const render = ({ results }: Results<N>) => tableOf({ ...nameColumns, ...outcome }, results)
      const { results } = await cli.run(operation, filter, { json, render })
      if (results.some(({ status }) => status === 'refused')) cli.setExitCode(exitRefused)
    }
  }
  register('replay', treat(operations.replay))
  register('discard', treat(operations.discard))
}

const statusOf = ({ status }: LetterOutcome) => status
const whyOf = (outcome: LetterOutcome) => (outcome.status === 'refused' ? outcome.message : '')

function tableOf<T>(columns: Record<string, (row: T) => Cell>, rows: readonly T[]): string {
  const cells = Object.values(columns)
  return table(
    Object.keys(columns),
    rows.map((row) => cells.map((cell) => cell(row))),
  )
}
