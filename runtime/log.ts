/** Log lines out of the process: JSON to standard error, readable lines when that is a terminal. */

import { type Logger, pino } from 'pino'
import pretty from 'pino-pretty'

export interface LogOptions {
  /** Default `info`. */
  level?: string
  /** Readable lines instead of JSON. */
  pretty?: boolean
}

/** Whatever a line carries by mistake under these names is cut out. */
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

/** The process's logger. Standard output is left to the addresses and to commands. */
export function createLog(options: LogOptions = {}): Logger {
  const settings = {
    level: options.level ?? 'info',
    redact,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
  }
  return options.pretty
    ? pino(
        settings,
        pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' }),
      )
    : pino(settings, pino.destination({ dest: 2, sync: true }))
}
