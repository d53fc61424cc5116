/**
 * Makes the empty cluster of a new data directory. Making one takes seconds of a core and much memory, so a process of
 * its own does it, once: the result is kept with the installed packages, and each data directory gets a copy.
 */

import { execFile } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
} from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { syncTree } from '#lib/files.ts'

/** Raise it with each change of how a cluster is made. */
const layout = 1
/** The Postgres that PGlite is. It opens clusters of no other. */
export const clusterMajor = '18'
const entry = fileURLToPath(new URL('./pglite-initdb.ts', import.meta.url))
/** The folder of compiled code, which the launcher chooses; without one that of a clone. */
const cache = getCompileCacheDir() ?? fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url))

export interface ClusterSource {
  /** Where the empty cluster is kept. */
  kept: string
  /** Makes a cluster in a folder that does not exist. */
  initialize(directory: string): Promise<void>
}

/** Leaves a cluster in `directory` when it holds none. */
export async function ensureCluster(
  directory: string,
  source: ClusterSource = { kept: cache, initialize },
): Promise<void> {
  if (existsSync(directory) && readdirSync(directory).length > 0) return
  const draft = `${directory}.new`
  rmSync(draft, { recursive: true, force: true })
  const empty = await keptCluster(source)
  if (empty) cpSync(empty, draft, { recursive: true })
  else await source.initialize(draft)
  chmodSync(draft, 0o700)
  // By rename: a process that is killed meanwhile leaves no half of a cluster.
  if (existsSync(directory)) rmdirSync(directory)
  renameSync(draft, directory)
}

/** Throws AppError `invalid_configuration` for a cluster that cannot be opened; makes and changes nothing. */
export function checkCluster(directory: string): void {
  if (!existsSync(directory) || readdirSync(directory).length === 0) return
  const [version, control] = [join(directory, 'PG_VERSION'), join(directory, 'global', 'pg_control')]
  if (!existsSync(version) || !existsSync(control)) {
    throw new AppError(
      'invalid_configuration',
      `The database in ${directory} is damaged: restore it from a copy.`,
    )
  }
  accessSync(control, constants.R_OK | constants.W_OK)
  const found = readFileSync(version, 'utf8').trim()
  if (found === clusterMajor) return
  throw new AppError(
    'invalid_configuration',
    `The database in ${directory} is one of Postgres ${found}; this version runs ${clusterMajor}. Start the version that made it, or use another data directory.`,
  )
}

/** The folder of the empty cluster, made where it is absent; undefined where it cannot be kept. */
async function keptCluster({ kept, initialize }: ClusterSource): Promise<string | undefined> {
  const path = join(kept, `postgres-${pgliteVersion()}-${layout}`)
  if (existsSync(path)) return path
  const draft = `${path}.${process.pid}`
  try {
    mkdirSync(kept, { recursive: true })
    await initialize(draft)
    syncTree(draft)
    renameSync(draft, path)
    return path
  } catch {
    rmSync(draft, { recursive: true, force: true })
    // Another process may have been first; else nothing can be written here.
    return existsSync(path) ? path : undefined
  }
}

async function initialize(directory: string): Promise<void> {
  await promisify(execFile)(process.execPath, [entry, directory], {
    timeout: deadlines.embedded.databaseOpenMs,
    killSignal: 'SIGKILL',
  })
}

function pgliteVersion(): string {
  const main = fileURLToPath(import.meta.resolve('@electric-sql/pglite'))
  const about = join(dirname(dirname(main)), 'package.json')
  return (JSON.parse(readFileSync(about, 'utf8')) as { version: string }).version
}
