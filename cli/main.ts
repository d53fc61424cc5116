/** The `flotilla` command: arguments in; exit code 0 done, 1 refused or not found, 2 wrong use. */

import { CommanderError } from 'commander'
import { createCli, exitDone, exitWrongUse, reportFault } from './cli.ts'
import { buildProgram } from './program.ts'

/** Aborts at the first signal; every later one changes nothing. */
function stopSignal(): AbortSignal {
  const stopping = new AbortController()
  const stop = () => stopping.abort()
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, stop)
  if (process.env.FLOTILLA_LAUNCHED === '1' && process.channel) {
    // The launcher passes signals on; when it was killed it cannot, and its end of the channel closes.
    process.on('disconnect', stop)
    process.channel.unref()
  }
  return stopping.signal
}

async function main(args: string[]): Promise<number> {
  const cli = createCli(process.env, stopSignal())
  try {
    const program = await buildProgram(cli, args)
    await program.parseAsync(args, { from: 'user' })
    return Number(process.exitCode ?? exitDone)
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitDone : exitWrongUse
    return reportFault(error, args.includes('--json'))
  }
}

// Ended here, so that no timer of a library holds the terminal.
process.exitCode = await main(process.argv.slice(2))
process.stdout.write('', () => process.exit())
