/** The logger of the process: JSON lines on standard error, lines for people where that is a terminal. */

import { type Logger, pino } from 'pino'
import { Type } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { painterOf, visibleJson } from '#lib/terminal-text.ts'
import { terminalLine } from './terminal-log.ts'

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export const logSettings = Type.Object({
  LOG_LEVEL: Type.Enum(levels, {
    default: 'info',
    description: '`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`; logs go to stderr',
  }),
})

/** What LOG_LEVEL says; `otherwise` where it is unset or wrong, which the check of the settings reports. */
export function logLevel(env: Environment, otherwise: string): string {
  return levels.find((level) => level === env.LOG_LEVEL) ?? otherwise
}

interface LogOptions {
  /** Default `info`. */
  level?: string
  /** Lines for people instead of JSON. */
  terminal?: boolean
}

/** Values that a line carries by mistake under these names are removed. */
const secrets = [
  'authorization',
  'api_key',
  'apiKey',
  'password',
  'secret',
  'signature',
  'private_key',
  'privateKey',
]
const redact = { paths: secrets.flatMap((name) => [name, `*.${name}`]), censor: '[cut]' }

/** Standard output is left to the addresses and to commands. */
export function createLog(options: LogOptions = {}): Logger {
  const settings = {
    level: options.level ?? 'info',
    redact,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
  }
  if (options.terminal) {
    const stream = process.stderr
    const paint = painterOf(stream)
    const all = settings.level === 'debug' || settings.level === 'trace'
    return pino(settings, {
      write(json) {
        const text = terminalLine(json, { all, paint })
        if (text !== null) stream.write(text)
      },
    })
  }
  // Requests must not wait for a pipe; lines that are still buffered are written at the exit.
  return pino({ ...settings, hooks: { streamWrite: visibleJson } }, buffered())
}

type Destination = ReturnType<typeof pino.destination>
let shared: Destination | undefined

/** Standard error, of which a process needs one: each would add a listener to the process for good. */
function buffered(): Destination {
  if (shared) return shared
  const destination = pino.destination({ dest: 2, sync: false })
  process.once('exit', () => {
    try {
      destination.flushSync()
    } catch {
      // Standard error is closed already.
    }
  })
  shared = destination
  return destination
}
