/** The entry point of the `flotilla` command: hands over its arguments, its environment and the signals that stop it. */

import { runCommandLine } from './program.ts'

/** Aborts at the first signal; every later one changes nothing. */
function stopSignal(): AbortSignal {
  const stopping = new AbortController()
  const stop = () => stopping.abort()
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, stop)
  if (process.env.FLOTILLA_LAUNCHED === '1') {
    // The launcher passes signals on; when it was killed it cannot, and its end of the channel closes.
    process.on('disconnect', stop)
    process.channel?.unref()
    // Closed while this file was loading; undefined without a channel.
    if (process.connected === false) stop()
  }
  return stopping.signal
}

// Who reads may stop reading, as `head` does: that is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

process.exitCode = await runCommandLine(process.argv.slice(2), process.env, stopSignal())
// Ended here, so that no timer of a library holds the terminal.
process.stdout.write('', () => process.exit())
