/** What all commands share: running an operation, printing its result, turning errors into exit codes. */

import { InvalidArgumentError, type Command as Program } from 'commander'
import type { Static, TObject } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { phraseOf } from '#lib/schema-faults.ts'
import { systemFault } from '#lib/system-faults.ts'
import type { Shown } from '#operations/action.ts'
import type { Operation } from '#operations/operation.ts'
import type { Output } from '#runtime/start/control.ts'
import { execute, executeRunning } from './execute.ts'
import type { Screen } from './layout.ts'
import {
  createOutput,
  indented,
  noOutput,
  printFault,
  printJson,
  printResult,
  screenOf,
  show,
} from './output.ts'

export const exitDone = 0
export const exitRefused = 1
export const exitWrongUse = 2

export interface Cli {
  env: Environment
  /** Aborts when the operator gave up (SIGINT, SIGTERM). */
  signal: AbortSignal
  /** Runs an operation and prints its result: as one JSON document, or as `render` says. */
  run<S extends TObject, R, I>(
    operation: Operation<S, R, I>,
    args: Static<S>,
    printing: Printing<R, I>,
  ): Promise<R | undefined>
  /** Runs an operation; nothing is printed but what `output` prints. */
  execute<S extends TObject, R, I>(
    operation: Operation<S, R, I>,
    args: Static<S>,
    output?: Output<I>,
  ): Promise<R>
  /** As `execute`, in a platform that runs: it is never opened for the command. */
  executeRunning<S extends TObject, R, I>(
    operation: Operation<S, R, I>,
    args: Static<S>,
    output?: Output<I>,
  ): Promise<R>
  /** Set by a command that did its work but has a refusal to report. */
  exitCode: number
}

export interface Printing<R, I = never> {
  json: boolean | undefined
  /** Nothing is cut, and times are in full, also on a terminal. */
  wide?: boolean | undefined
  /** It goes on until the operator ends it, which is then no error. */
  endless?: boolean
  render(result: R, screen: Screen): Shown
  /** Merges items that belong to the result into it; both are printed as one. */
  gather?(items: I[], result: R): R
  /** Items that come before the result; not printed with --json. */
  item?(value: I, screen: Screen): Shown
}

export function createCli(env: Environment, signal: AbortSignal): Cli {
  const cli: Cli = {
    env,
    signal,
    exitCode: exitDone,
    execute: (operation, args, output = noOutput) => execute(operation, args, { env, output, signal }),
    executeRunning: (operation, args, output = noOutput) =>
      executeRunning(operation, args, { env, output, signal }),
    async run<S extends TObject, R, I>(
      operation: Operation<S, R, I>,
      args: Static<S>,
      printing: Printing<R, I>,
    ) {
      const items: I[] = []
      const { json, wide } = printing
      const output = createOutput((value: I) => {
        if (printing.gather) items.push(value)
        else if (!json && printing.item) {
          // A terminal may have another width than before.
          const screen = screenOf(process.stdout, { wide })
          show(printing.item(value, screen), screen)
        }
      })
      try {
        const last = await cli.execute(operation, args, output)
        const result = printing.gather ? printing.gather(items, last) : last
        output.end()
        printResult(json, result, (screen) => printing.render(result, screen), { wide })
        return result
      } catch (error) {
        if (printing.endless && signal.aborted) return undefined
        throw error
      } finally {
        output.end()
      }
    },
  }
  return cli
}

/** Reads a whole number at the command line; others are refused with the rule, which follows from the range. */
export function numberReader(
  minimum: number,
  maximum: number,
  rule = phraseOf({ type: 'integer', minimum, maximum }),
): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d{1,16}$/.test(text) && number >= minimum && number <= maximum) return number
    throw new InvalidArgumentError(`It must be ${rule}.`)
  }
}

/** Errors of the words on the command line. */
const wrongUseCodes: ReadonlySet<string> = new Set(['bad_request', 'validation_failed'])

/** Prints what went wrong and returns the exit code. */
export function reportError(error: unknown, json: boolean): number {
  // The client's ProblemError has a code of the same list; loading the client for its class would take long.
  const isProblem = error instanceof Error && error.name === 'ProblemError'
  const known = error instanceof AppError || isProblem ? (error as AppError) : systemFault(error)
  const code = known?.code ?? 'internal_error'
  const message = known?.message ?? describeError(error)
  // The client puts its code before its message.
  const said = message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message
  const report = { code, message: `${said}${fieldLines(known, said)}` }
  if (json) printJson({ error: report })
  // Some messages have lines that are indented already.
  else printFault(indented(`${report.code}: ${report.message.replaceAll('\n  ', '\n')}`))
  return wrongUseCodes.has(report.code) ? exitWrongUse : exitRefused
}

/** For commands whose result has tables or times. */
export function withWide(program: Program): Program {
  return program.option('--wide', 'cut nothing to the width of the terminal, show times in full')
}

/** The faulty fields, a line each, unless the message names them already. */
function fieldLines(known: AppError | null, said: string): string {
  if (known?.code !== 'validation_failed') return ''
  const missing = (known.errors ?? []).filter(({ message }) => !said.includes(message))
  return missing.map(({ path, message }) => `\n  ${path || 'body'}: ${message}`).join('')
}

/** Adds --json and an example to a command's help. */
export function describe(program: Program, example: string): Program {
  return program
    .option('--json', 'print one JSON document')
    .addHelpText('after', `\nExample:\n  $ ${example.replaceAll('\n', '\n  $ ')}`)
}
