/** The keys that secrets at rest are encrypted with: those of FLOTILLA_SECRET_KEY, else those of a file of the data directory. */

import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Static, Type } from 'typebox'
import { type Environment, loadConfig, optionalText } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { makeFolder } from '#lib/folders.ts'
import { syncPath, writeSynced } from '#lib/synced-files.ts'
import { explainSystemFault, fileFaultCode } from '#lib/system-faults.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { parseSecretKey, type SecretKey } from './sealing.ts'

export const secretKeyVariable = 'FLOTILLA_SECRET_KEY'

export const secretSettings = Type.Object({
  [secretKeyVariable]: optionalText(
    'encrypts the secrets in the database: 32 random bytes in base64 or hex, the same for all processes; without it the file `secret-key` of the data directory; several, separated by commas: the first encrypts, all open',
  ),
} satisfies Record<typeof secretKeyVariable, unknown>)

/** The first encrypts; all of them open. */
export type SecretKeys = readonly [SecretKey, ...SecretKey[]]

/** Of FLOTILLA_SECRET_KEY; null when it is unset. Throws AppError `invalid_configuration`, which shows nothing of it. */
export function keysOfEnvironment(env: Environment): SecretKeys | null {
  const settings: Static<typeof secretSettings> = loadConfig(secretSettings, env)
  const text = settings[secretKeyVariable]
  return text === undefined ? null : parseKeys(text.split(','), secretKeyVariable)
}

/** Those of the variable, else those of the file; null when there is neither. Throws AppError `invalid_configuration`. */
export function keysAtHand(env: Environment): SecretKeys | null {
  return keysOfEnvironment(env) ?? readKeyFile(secretKeyFile(env))
}

/** Where keys are kept when the variable is unset. */
export function secretKeyFile(env: Environment): string {
  return join(homeOf(env), 'secret-key')
}

/** A key a line. Null when there is no such file. */
function readKeyFile(file: string): SecretKeys | null {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw unusable(file, error)
  }
  return parseKeys(text.trim().split('\n'), file)
}

/** Written whole and synced (0600) before it gets its name. `replace` false: one that appeared meanwhile stays. */
export function writeKeyFile(file: string, keys: SecretKeys, { replace }: { replace: boolean }): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  try {
    makeFolder(dirname(file))
    writeSynced(draft, `${keys.map(({ bytes }) => bytes.toString('base64')).join('\n')}\n`)
    if (replace) renameSync(draft, file)
    else linkSync(draft, file)
    syncPath(dirname(file))
  } catch (error) {
    if (!replace && existsSync(file)) return
    throw unusable(file, error)
  } finally {
    rmSync(draft, { force: true })
  }
}

function parseKeys(texts: string[], where: string): SecretKeys {
  const keys = texts.map((text) => parseSecretKey(text.trim()))
  const [first, ...others] = keys.filter((key) => key !== null)
  if (first && others.length === keys.length - 1) return [first, ...others]
  throw new AppError(
    'invalid_configuration',
    `${where} must hold keys of 32 bytes, each in base64 or hex: \`openssl rand -base64 32\` makes one.`,
    { errors: [{ path: where, message: 'must hold keys of 32 bytes in base64 or hex' }] },
  )
}

function unusable(file: string, error: unknown): AppError {
  const why = explainSystemFault(error) ?? describeError(error)
  return new AppError(
    fileFaultCode(error),
    `The key of the stored secrets cannot be kept in ${file}: ${why}. Set ${secretKeyVariable}, or make the file accessible.`,
    { cause: error },
  )
}
