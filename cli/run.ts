/** Runs one command line and says how it ended by its exit code: 0 done, 1 refused or not found, 2 wrong use. */

import { CommanderError } from 'commander'
import type { Environment } from '#lib/config.ts'
import { createCli, exitDone, exitWrongUse, reportError } from './cli.ts'
import { isLocalSearch, runLocalSearch } from './commands/local-search.ts'
import { buildProgram } from './program.ts'

/** Runs one command; `signal` aborts when the operator gave up. */
export async function runCommandLine(
  args: readonly string[],
  env: Environment,
  signal: AbortSignal,
): Promise<number> {
  if (isLocalSearch(args)) return runLocalSearch(args, env)
  const cli = createCli(env, signal)
  try {
    const program = await buildProgram(cli, args)
    await program.parseAsync([...args], { from: 'user' })
    return cli.exitCode()
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitDone : exitWrongUse
    return reportError(error, args.includes('--json'))
  }
}
