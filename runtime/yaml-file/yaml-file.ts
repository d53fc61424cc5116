/**
 * Loads and checks a YAML file of the operator, and watches it: a change takes effect while the services run, and a faulty
 * file changes nothing.
 */

import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, type Stats, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import type { TSchema } from 'typebox'
import { withTimeout } from '#lib/backoff.ts'
import type { Environment } from '#lib/config.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { openWorker } from '#lib/worker-rpc.ts'
import { startRepeating } from '../repeat.ts'
import { homeOf } from '../start/settings.ts'
import { checkValues } from './check.ts'
import type { ParsingThread } from './parse-thread.ts'
import { type Fault, type Parsed, parseYaml } from './parse-yaml.ts'

const fileBytesMax = 256 * 1024
const pieceBytes = 8 * 1024
const faultsMax = 20
const parseHeapMbMax = 256
/**
 * A change counts when two checks in a row saw the same: an editor may write a file piece by piece. Who writes a file and then
 * fires an event, with two commands, expects the event to meet the file.
 */
const checkEveryMs = 750
const settledAfterMs = 200

/** The part that the values of every file have. */
export interface FileValues {
  /** Changes when the file's content did. */
  readonly version: string
}

/** What a kind of file holds, and how it is called. */
interface YamlFileKind<V, T extends FileValues> {
  /** For people: `targets file`. */
  name: string
  /** Environment variable that names the file. */
  variable: string
  /** Begins the names of log lines: `webhooks.targets` is logged as `webhooks.targets-taken-up`. */
  logName: string
  /** Further than JSON Schema: see FileSchemaOptions. */
  schema: TSchema
  /** What the file says; null for an absent one. `secrets` must never be written anywhere. */
  read(value: V | null, secrets: readonly string[], version: string): T
  /** For the log line of a file that was taken up. */
  describe(value: T): object
}

export interface YamlFileOptions {
  /** True: the file may be absent. */
  optional?: boolean
}

export function yamlFile<V, T extends FileValues>(kind: YamlFileKind<V, T>) {
  function checked(parsed: Parsed, text: string, env: Environment, path: string): T {
    const secrets = parsed.value === undefined ? [] : [...checkValues(kind.schema, parsed, env)]
    if (parsed.faults.length > 0) throw faultyFile(kind, path, parsed.faults)
    return kind.read(parsed.value as V, secrets, versionOf(text))
  }
  /** As `load`, of a text; `path` is named in the fault. */
  const parse = (text: string, env: Environment, path: string) => checked(parseYaml(text), text, env, path)
  /**
   * Reads and checks the file. Throws AppError `invalid_configuration` with every fault: line, place, what to do; never a
   * value of a variable, nor a text of the file that might be a secret.
   */
  function load(path: string, env: Environment, { optional = false }: YamlFileOptions = {}): T {
    const text = readText(kind, path, optional)
    return text === null ? kind.read(null, [], 'none') : parse(text, env, path)
  }
  async function loadInThread(path: string, env: Environment): Promise<T> {
    const text = readText(kind, path, false) as string
    return checked(await parseInThread(text), text, env, path)
  }
  /**
   * Loads the file and checks it again and again: a change takes effect within two seconds, however it was written (in
   * place, by rename, through a link). A faulty or missing file is refused, and the old values stay.
   */
  const watch = (options: WatchYamlFileOptions) => watchFile(kind, options, load, loadInThread)
  return { load, parse, watch }
}

export interface WatchYamlFileOptions extends YamlFileOptions {
  path: string
  env: Environment
  log: Logger
  /** Ends the watching. */
  signal?: AbortSignal
}

export interface WatchedYamlFile<T extends FileValues> extends Closeable {
  current(): T
  /** Why the file as it is now was refused, or null. */
  refused(): string | null
  onChange(listener: (value: T) => void): void
}

type Load<R> = (path: string, env: Environment, options: YamlFileOptions) => R

function watchFile<T extends FileValues>(
  kind: Pick<YamlFileKind<never, T>, 'name' | 'logName' | 'describe'>,
  options: WatchYamlFileOptions,
  load: Load<T>,
  loadInThread: Load<Promise<T>>,
): WatchedYamlFile<T> {
  const { path, env, log } = options
  let seen = fingerprint(path)
  let taken = seen
  let current = load(path, env, options)
  let refused: string | null = null
  const listeners: ((value: T) => void)[] = []

  async function check(): Promise<void> {
    const now = fingerprint(path)
    const settled = now === seen
    seen = now
    if (!settled || now === taken) return
    taken = now
    try {
      if (now === absent) throw new AppError('invalid_configuration', `The ${kind.name} ${path} is gone.`)
      const next = await loadInThread(path, env, {})
      refused = null
      if (next.version === current.version) return
      current = next
      log.info({ path, ...kind.describe(next), version: next.version }, `${kind.logName}-taken-up`)
    } catch (error) {
      refused = error instanceof AppError ? error.message : 'It cannot be read.'
      log.error(
        { path, faults: refused.split('\n'), hint: 'the old ones stay in force' },
        `${kind.logName}-refused`,
      )
      return
    }
    for (const listener of listeners) listener(current)
  }

  const everyMs = () => (seen === taken ? checkEveryMs : settledAfterMs)
  const watching = startRepeating({ what: kind.name, everyMs, firstAfterMs: checkEveryMs, log }, check)
  options.signal?.addEventListener('abort', () => void watching.close(), { once: true })
  return {
    current: () => current,
    refused: () => refused,
    onChange: (listener) => void listeners.push(listener),
    async close() {
      listeners.length = 0
      await watching.close()
    },
  }
}

export type NamedFile = ReturnType<typeof namedFile>

/** The file that was named, absolute; without one `fileName` in the data directory, which alone may be absent. */
export function namedFile(named: string | undefined, fileName: string, env: Environment) {
  return named === undefined
    ? { path: join(homeOf(env), fileName), optional: true }
    : { path: resolve(named), optional: false }
}

/**
 * As `parseYaml`, so that no text of an operator holds up the requests of this process. Throws AppError
 * `invalid_configuration` when it takes too long or too much memory.
 */
export async function parseInThread(text: string): Promise<Parsed> {
  const entry = new URL('./parse-thread.ts', import.meta.url)
  const tooMuch = () =>
    new AppError('invalid_configuration', 'The file takes too long to read: make it smaller.')
  const thread = openWorker<ParsingThread>({ entry, name: 'yaml file', heapMbMax: parseHeapMbMax }, tooMuch)
  try {
    return await withTimeout(thread.call.parse(text), deadlines.yamlParseMs, tooMuch)
  } finally {
    await thread.terminate()
  }
}

type FileNames = Pick<YamlFileKind<never, never>, 'name' | 'variable'>

function faultyFile({ name }: FileNames, path: string, faults: Fault[]): AppError {
  const lines = faults
    .slice(0, faultsMax)
    .sort((a, b) => a.line - b.line)
    .map(
      ({ line, path: place, message }) => `line ${line}: ${place === '' ? message : `${place} ${message}`}`,
    )
  const more = faults.length > faultsMax ? [`and ${faults.length - faultsMax} more`] : []
  const errors = faults.slice(0, faultsMax).map(({ line, path: place, message }) => ({
    path: `line ${line}${place === '' ? '' : `, ${place}`}`,
    message,
  }))
  return new AppError(
    'invalid_configuration',
    `Mend the ${name} ${path}:\n  ${[...lines, ...more].join('\n  ')}`,
    { errors },
  )
}

function versionOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** Null when it is absent and may be. */
function readText({ name, variable }: FileNames, path: string, optional: boolean): string | null {
  let bytes: Buffer | null
  try {
    bytes = readBytes(path)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'a fault'
    if (optional && (code === 'ENOENT' || code === 'ENOTDIR')) return null
    throw new AppError(
      'invalid_configuration',
      `The ${name} ${path} cannot be read (${code}): put it there, or name another with ${variable}.`,
    )
  }
  if (bytes === null) {
    throw new AppError('invalid_configuration', `The ${name} ${path} is larger than ${fileBytesMax} bytes.`)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new AppError('invalid_configuration', `The ${name} ${path} is not text in UTF-8.`)
  }
}

/** Null when the file is too large: no more than the limit is ever read. */
function readBytes(path: string, found: Stats = statSync(path)): Buffer | null {
  // Opening a pipe would block until another process writes.
  if (!found.isFile()) throw Object.assign(new Error('no file'), { code: 'not a regular file' })
  const file = openSync(path, 'r')
  try {
    const pieces: Buffer[] = []
    for (let length = 0; length <= fileBytesMax; ) {
      // No memory for the largest that may be: most files are small, and are read again and again.
      const piece = Buffer.allocUnsafe(pieceBytes)
      const read = readSync(file, piece, 0, pieceBytes, null)
      if (read === 0) return Buffer.concat(pieces)
      pieces.push(piece.subarray(0, read))
      length += read
    }
    return null
  } finally {
    closeSync(file)
  }
}

const absent = 'absent'

/** A short text that changes with the file's content. */
function fingerprint(path: string): string {
  try {
    // Looked at all the time: for most files no fault is made of it.
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return absent
    const bytes = readBytes(path, found)
    return bytes === null ? 'too large' : createHash('sha256').update(bytes).digest('hex')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'ENOENT' ? absent : `unreadable ${code}`
  }
}
