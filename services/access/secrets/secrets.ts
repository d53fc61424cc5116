/**
 * The platform's own secrets: encrypted in the database, opened at the start, re-encrypted when the key is rotated. The keys
 * are those of FLOTILLA_SECRET_KEY, else those of a file of the data directory.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { type Static, Type } from 'typebox'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import { type Environment, loadConfig, optionalText } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { makeFolder, syncPath, writeSynced } from '#lib/files.ts'
import { explainSystemFault, fileFaultCode } from '#lib/system-faults.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { newSecretKey, parseSecretKey, type SecretKey, seal, sealedWith, unseal } from './sealing.ts'

export type Secrets = Awaited<ReturnType<typeof openSecrets>>

/** The key for values sealed under this name, the same at every instance. Throws as `Secrets.get`. */
export async function sealingKey(secrets: Pick<Secrets, 'get'>, name: string): Promise<SecretKey> {
  const bytes = await secrets.get(name, () => randomBytes(32))
  return parseSecretKey(bytes.toString('hex'))!
}

interface Row {
  name: string
  sealed: Buffer
}

/**
 * Reads the keys, or makes the first one, and tries them on everything that is stored. Throws AppError
 * `invalid_configuration` when something does not open, `relational_engine_unavailable`.
 */
export async function openSecrets(relational: Relational, env: Environment, log?: Pick<Logger, 'info'>) {
  const rows = await readAll(relational)
  const keys = findKeys(env, rows.length > 0, log)
  for (const row of rows) open(keys, row)
  // A rotation of the key while this process runs puts another one into the file.
  const latest = () => keysAtHand(env) ?? keys
  const present = (row: Row) => (keys.some(({ id }) => id === sealedWith(row.sealed)) ? keys : latest())
  async function find(executor: SqlExecutor, name: string): Promise<Buffer | undefined> {
    const { rows } = await executor.query<Row>('select name, sealed from platform.secrets where name = $1', [
      name,
    ])
    return rows[0] && open(present(rows[0]), rows[0])
  }
  /**
   * Stores what `work` makes of the secret, of several instances one at a time, and resolves with the stored value. Where
   * it gives back what it got, nothing is written.
   */
  function change(
    name: string,
    work: (secret: Buffer | undefined, tx: SqlExecutor) => Promise<Buffer>,
  ): Promise<Buffer> {
    return relational.transaction(async (tx) => {
      // A second transaction waits for the first here, and then finds its row.
      await tx.query('lock table platform.secrets in share row exclusive mode')
      const old = await find(tx, name)
      const secret = await work(old, tx)
      if (old?.equals(secret)) return old
      await tx.query(
        `insert into platform.secrets (name, sealed) values ($1, $2)
           on conflict (name) do update set sealed = excluded.sealed, updated_at = now()`,
        [name, seal(latest()[0], name, secret)],
      )
      return secret
    })
  }
  return {
    /**
     * The secret of this name. Where there is none yet, `make` gives it, in the transaction that stores it; of several
     * instances that start at once all get the same.
     */
    get: async (name: string, make: (tx: SqlExecutor) => Promise<Buffer> | Buffer): Promise<Buffer> =>
      (await find(relational, name)) ?? change(name, async (found, tx) => found ?? make(tx)),
    /** Undefined where there is none of this name. */
    find: (name: string) => find(relational, name),
    change,
  }
}

/**
 * Whether the keys at hand open all that is stored, and how much that is; null where there is no key at hand. Makes
 * nothing. Throws as `openSecrets`.
 */
export async function tryKeys(relational: SqlExecutor, env: Environment): Promise<number | null> {
  const rows = await readAll(relational)
  const keys = keysAtHand(env)
  if (!keys) return rows.length === 0 ? 0 : null
  for (const row of rows) open(keys, row)
  return rows.length
}

async function readAll(executor: SqlExecutor): Promise<Row[]> {
  return (await executor.query<Row>('select name, sealed from platform.secrets order by name')).rows
}

/** A key is made only where nothing was encrypted with another. */
function findKeys(env: Environment, used: boolean, log?: Pick<Logger, 'info'>): SecretKeys {
  const known = keysAtHand(env)
  if (known) return known
  const file = secretKeyFile(env)
  if (used) throw noKey(`${file} does not exist`)
  writeKeyFile(file, [newSecretKey()], { replace: false })
  log?.info({ file, hint: `back it up, or set ${secretKeyVariable}` }, 'secrets.key-made')
  return keysAtHand(env) ?? findKeys(env, used, log)
}

function open(keys: SecretKeys, { name, sealed }: Row): Buffer {
  const secret = unseal(keys, name, sealed)
  if (secret) return secret
  throw noKey(`\`${name}\` was encrypted with key ${sealedWith(sealed) ?? 'of another form'}`)
}

function noKey(why: string): AppError {
  return new AppError(
    'invalid_configuration',
    `The secrets in the database do not open: ${why}. Set ${secretKeyVariable} to the key that they were encrypted with, or bring back the file secret-key of the data directory.`,
    { errors: [{ path: secretKeyVariable, message: 'does not open the secrets in the database' }] },
  )
}

interface Rotated {
  /** Id of the key that everything is encrypted with now. */
  key_id: string
  /** Secrets that were encrypted again. */
  secrets: number
  /** FLOTILLA_SECRET_KEY, or the path of the file. */
  kept_in: string
}

/**
 * Encrypts every secret with the first key of FLOTILLA_SECRET_KEY; where that is unset, with a fresh one, which the file
 * then holds before the last one. Interrupted at any moment, everything still opens. Throws as `openSecrets`.
 */
export async function rotateSecrets(relational: Relational, env: Environment): Promise<Rotated> {
  await openSecrets(relational, env)
  const named = keysOfEnvironment(env)
  if (named) {
    const secrets = await sealAgain(relational, named)
    return { key_id: named[0].id, secrets, kept_in: secretKeyVariable }
  }
  const file = secretKeyFile(env)
  const old = findKeys(env, true)
  const fresh = newSecretKey()
  writeKeyFile(file, [fresh, ...old], { replace: true })
  const secrets = await sealAgain(relational, [fresh, ...old])
  writeKeyFile(file, [fresh, old[0]], { replace: true })
  return { key_id: fresh.id, secrets, kept_in: file }
}

function sealAgain(relational: Relational, keys: SecretKeys): Promise<number> {
  return relational.transaction(async (tx) => {
    const { rows } = await tx.query<Row>('select name, sealed from platform.secrets order by name for update')
    const old = rows.filter(({ sealed }) => sealedWith(sealed) !== keys[0].id)
    for (const row of old) {
      const sealed = seal(keys[0], row.name, open(keys, row))
      await tx.query('update platform.secrets set sealed = $2, updated_at = now() where name = $1', [
        row.name,
        sealed,
      ])
    }
    return old.length
  })
}

export const secretKeyVariable = 'FLOTILLA_SECRET_KEY'

export const secretSettings = Type.Object({
  [secretKeyVariable]: optionalText(
    'encrypts the secrets in the database: 32 random bytes in base64 or hex, the same for all processes; without it the file `secret-key` of the data directory; several, separated by commas: the first encrypts, all open',
  ),
} satisfies Record<typeof secretKeyVariable, unknown>)

/** The first encrypts; all of them open. */
type SecretKeys = readonly [SecretKey, ...SecretKey[]]

/** The keys in FLOTILLA_SECRET_KEY; null when it is unset. Throws AppError `invalid_configuration`, which shows nothing of it. */
function keysOfEnvironment(env: Environment): SecretKeys | null {
  const settings: Static<typeof secretSettings> = loadConfig(secretSettings, env)
  const text = settings[secretKeyVariable]
  return text === undefined ? null : parseKeys(text.split(','), secretKeyVariable)
}

/** Those of the variable, else those of the file; null when there is neither. Throws AppError `invalid_configuration`. */
export function keysAtHand(env: Environment): SecretKeys | null {
  return keysOfEnvironment(env) ?? readKeyFile(secretKeyFile(env))
}

/** Where keys are kept when the variable is unset. */
function secretKeyFile(env: Environment): string {
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
function writeKeyFile(file: string, keys: SecretKeys, { replace }: { replace: boolean }): void {
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
