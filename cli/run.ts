/** Runs one command line and says how it ended by its exit code: 0 done, 1 refused or not found, 2 wrong use. */

import { CommanderError } from 'commander'
import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { createCli, exitDone, exitWrongUse, reportError } from './cli.ts'
import { isLocalSearch, runLocalSearch } from './commands/local-search.ts'
import { buildProgram, singulars } from './program.ts'

/** Runs one command; `signal` aborts when the operator gave up. */
export async function runCommandLine(
  args: readonly string[],
  env: Environment,
  signal: AbortSignal,
): Promise<number> {
  if (isLocalSearch(args)) return runLocalSearch(args, env)
  const cli = createCli(env, signal)
  try {
    const words = withPlural(args)
    const program = await buildProgram(cli, words)
    await program.parseAsync(words, { from: 'user' })
    return cli.exitCode()
  } catch (error) {
    const json = args.includes('--json')
    if (!(error instanceof CommanderError)) return reportError(error, json)
    if (error.exitCode === 0) return exitDone
    if (json) reportError(new AppError('bad_request', wrongUseOf(error)), json)
    return exitWrongUse
  }
}

/** Commander has written its message to standard error already. */
function wrongUseOf({ code, message }: CommanderError): string {
  if (code === 'commander.help') return 'Say which command is meant: --help lists them.'
  return message.replace(/^error: /, '')
}

/** `flotilla agent list` means `flotilla agents list`. */
function withPlural([noun = '', ...rest]: readonly string[]): string[] {
  return noun === '' ? rest : [Object.hasOwn(singulars, noun) ? singulars[noun]! : noun, ...rest]
}
