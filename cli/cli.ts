/** What the registrations of all commands share: running one, printing its result, turning faults into exit codes. */

import type { Command as Program } from 'commander'
import type { Environment } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Command } from '#operations/operation.ts'
import { execute } from './execute.ts'
import { createOutput } from './output.ts'

export const exitDone = 0
export const exitRefused = 1
export const exitWrongUse = 2

export interface Cli {
  env: Environment
  /** Aborts when the operator gave up (SIGINT, SIGTERM). */
  signal: AbortSignal
  /** Runs a command and prints its result: as one JSON document, or as `render` says. */
  run<A extends object, R>(command: Command<A, R>, args: A, printing: Printing<R>): Promise<R>
  /** As `run`, for a command that goes on until the operator ends it, which is then no fault. */
  follow<A extends object, R>(command: Command<A, R>, args: A, printing: Printing<R>): Promise<void>
  /** For a command that did its work and has to tell of a refusal all the same. */
  setExitCode(code: number): void
  exitCode(): number
}

export interface Printing<R> {
  json: boolean | undefined
  render(result: R): string
  /** Items that come before the result; not printed with --json. */
  item?(value: never): string
}

export function createCli(env: Environment, signal: AbortSignal): Cli {
  let exitCode = exitDone
  async function run<A extends object, R>(
    command: Command<A, R>,
    args: A,
    printing: Printing<R>,
  ): Promise<R> {
    const output = createOutput((value) => {
      if (!printing.json && printing.item) console.log(printing.item(value))
    })
    try {
      const result = await execute(command, args, { env, output, signal })
      output.end()
      const text = printing.json ? JSON.stringify(result) : printing.render(result)
      if (text !== '') console.log(text)
      return result
    } finally {
      output.end()
    }
  }
  return {
    env,
    signal,
    run,
    async follow(command, args, printing) {
      try {
        await run(command, args, printing)
      } catch (error) {
        if (!signal.aborted) throw error
      }
    },
    setExitCode(code) {
      exitCode = code
    },
    exitCode: () => exitCode,
  }
}

/** Faults that are the fault of the words on the command line. */
const wrongUseCodes: ReadonlySet<string> = new Set(['bad_request', 'validation_failed'])

/** Prints what went wrong and returns the exit code. */
export function reportFault(error: unknown, json: boolean): number {
  // The client's ProblemError has a code of the same list; loading the client for its class would take long.
  const known = error instanceof AppError || (error instanceof Error && error.name === 'ProblemError')
  const message = known ? error.message : describeError(error)
  const fault = { code: known ? String((error as AppError).code) : 'internal_error', message }
  if (json) console.log(JSON.stringify({ error: fault }))
  else console.error(`${fault.code}: ${message}`)
  return wrongUseCodes.has(fault.code) ? exitWrongUse : exitRefused
}

/** Adds --json and an example to a command's help. */
export function describe(program: Program, example: string): Program {
  return program
    .option('--json', 'print one JSON document')
    .addHelpText('after', `\nExample:\n  $ ${example.replaceAll('\n', '\n  $ ')}`)
}
