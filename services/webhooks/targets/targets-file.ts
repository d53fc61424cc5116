/** Loads and checks the targets file, and watches it: a change takes effect while the services run. */

import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'
import { type Fault, type Located, type Parsed, parseText } from './located-yaml.ts'
import { parseInThread } from './parse-in-thread.ts'
import type { WebhookTarget, WebhookTargets } from './target.ts'
import { readTarget, unknownKey } from './target-fields.ts'
import { createReading, type TargetReading } from './target-reading.ts'

/** 256 bytes for each of the targets. */
const fileBytesMax = 256 * 1024
const targetsMax = 1_000
const faultsMax = 20
/** Names are used in addresses, query lists and labels of metrics. */
const targetNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
/**
 * A change counts when two checks in a row saw the same: an editor may write a file piece by piece. Two of them and a
 * moment are within the two seconds that are promised.
 */
const checkEveryMs = 800

export interface TargetsFileOptions {
  /** True: an absent file means no targets. */
  optional?: boolean
}

/**
 * Reads and checks the file. Throws AppError `invalid_configuration` with every fault: line, place, what to do; never a
 * value of a variable, nor a text of the file that might be a secret.
 */
export function loadTargets(
  path: string,
  env: Environment,
  options: TargetsFileOptions = {},
): WebhookTargets {
  const text = readText(path, options.optional === true)
  return text === null ? noTargets : parseTargets(text, env, path)
}

/** As `loadTargets`, of a text; `path` is named in the fault. */
export function parseTargets(text: string, env: Environment, path: string): WebhookTargets {
  return targetsOf(parseText(text), text, env, path)
}

function targetsOf({ root, faults }: Parsed, text: string, env: Environment, path: string): WebhookTargets {
  const reading = createReading(env, faults)
  const targets = root ? readRoot(root, reading) : new Map<string, WebhookTarget>()
  if (faults.length > 0) throw faultyFile(path, faults)
  return { targets, secrets: [...reading.secrets], version: versionOf(text) }
}

const noTargets: WebhookTargets = { targets: new Map(), secrets: [], version: 'none' }

export interface WatchTargetsOptions extends TargetsFileOptions {
  path: string
  env: Environment
  log: Logger
  /** Ends the watching. */
  signal?: AbortSignal
}

export interface WatchedTargets extends Closeable {
  current(): WebhookTargets
  /** Why the file as it is now was refused, or null. */
  refused(): string | null
  onChange(listener: (targets: WebhookTargets) => void): void
}

/**
 * Loads the file, as `loadTargets` does, and checks it again and again: a change takes effect within two seconds, however
 * it was written (in place, by rename, through a link). A faulty or missing file is refused, and the old targets stay.
 */
export function watchTargets(options: WatchTargetsOptions): WatchedTargets {
  const { path, env, log } = options
  let seen = fingerprint(path)
  let taken = seen
  let current = loadTargets(path, env, options)
  let refused: string | null = null
  const listeners: ((targets: WebhookTargets) => void)[] = []

  async function check(): Promise<void> {
    const now = fingerprint(path)
    const settled = now === seen
    seen = now
    if (!settled || now === taken) return
    taken = now
    try {
      if (now === absent) throw new AppError('invalid_configuration', `The targets file ${path} is gone.`)
      const text = readText(path, false) as string
      const next = targetsOf(await parseInThread(text), text, env, path)
      refused = null
      if (next.version === current.version) return
      current = next
      log.info({ path, targets: next.targets.size, version: next.version }, 'webhooks.targets-taken-up')
    } catch (error) {
      refused = error instanceof AppError ? error.message : 'It cannot be read.'
      log.error({ path, faults: refused.split('\n') }, 'webhooks.targets-refused: the old ones stay in force')
      return
    }
    for (const listener of listeners) listener(current)
  }

  const watching = startRepeating(
    { what: 'targets file', everyMs: checkEveryMs, firstAfterMs: checkEveryMs, log },
    check,
  )
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

function readRoot(root: Located, reading: TargetReading): Map<string, WebhookTarget> {
  const targets = new Map<string, WebhookTarget>()
  if (root.kind !== 'map') {
    reading.fault(root.place, 'the file must be a map with the one key targets')
    return targets
  }
  for (const entry of root.entries) {
    if (entry.name !== 'targets') reading.fault(entry.place, unknownKey(entry.name, ['targets']))
  }
  const given = root.entries.find((entry) => entry.name === 'targets')
  if (!given) reading.fault(root.place, 'the key targets is missing; write `targets: {}` for none')
  else if (given.value.kind === 'map') readTargets(given.value.entries, reading, targets)
  else if (given.value.kind !== 'scalar' || given.value.value !== null) {
    reading.fault(given.place, 'must be a map of names to targets')
  }
  return targets
}

function readTargets(
  entries: Extract<Located, { kind: 'map' }>['entries'],
  reading: TargetReading,
  targets: Map<string, WebhookTarget>,
): void {
  if (entries.length > targetsMax)
    reading.fault(entries[targetsMax]!.place, `there may be ${targetsMax} targets at most`)
  for (const { name, place, value } of entries.slice(0, targetsMax)) {
    if (!targetNamePattern.test(name)) {
      reading.fault(
        place,
        'is not a name: 1 to 64 letters, digits, dots, underscores or hyphens, beginning with a letter or digit',
      )
    }
    const target = readTarget(name, place, value, reading)
    if (target) targets.set(name, target)
  }
}

function faultyFile(path: string, faults: Fault[]): AppError {
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
    `Mend the targets file ${path}:\n  ${[...lines, ...more].join('\n  ')}`,
    { errors },
  )
}

function versionOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** Null when it is absent and may be. */
function readText(path: string, optional: boolean): string | null {
  let bytes: Buffer | null
  try {
    bytes = readBytes(path)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'a fault'
    if (optional && (code === 'ENOENT' || code === 'ENOTDIR')) return null
    throw new AppError(
      'invalid_configuration',
      `The targets file ${path} cannot be read (${code}): put it there, or name another with WEBHOOK_TARGETS_FILE.`,
    )
  }
  if (bytes === null) {
    throw new AppError(
      'invalid_configuration',
      `The targets file ${path} is larger than ${fileBytesMax} bytes.`,
    )
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new AppError('invalid_configuration', `The targets file ${path} is not text in UTF-8.`)
  }
}

/** Null when the file is too large: no more than the limit is ever read. */
function readBytes(path: string): Buffer | null {
  // Opening a pipe would block until another process writes.
  if (!statSync(path).isFile()) throw Object.assign(new Error('no file'), { code: 'not a regular file' })
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(fileBytesMax + 1)
    let length = 0
    for (let read = -1; read !== 0 && length < bytes.length; length += read) {
      read = readSync(file, bytes, length, bytes.length - length, null)
    }
    return length > fileBytesMax ? null : bytes.subarray(0, length)
  } finally {
    closeSync(file)
  }
}

const absent = 'absent'

/** A short text that changes with the file's content. */
function fingerprint(path: string): string {
  try {
    const bytes = readBytes(path)
    return bytes === null ? 'too large' : createHash('sha256').update(bytes).digest('hex')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'ENOENT' ? absent : `unreadable ${code}`
  }
}
