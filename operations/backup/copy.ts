/**
 * Copies what cannot be made again out of a data directory: the log, the database, keys and files. Vectors and mirror are
 * left out, because both are made from the log.
 */

import { constants, readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
import { copyFile, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { folders, snapshotLog } from '#engines/open.ts'
import { presentPart } from '#lib/data-directory.ts'
import { AppError } from '#lib/errors.ts'
import { makeFolder } from '#lib/files.ts'
import { fileFaultCode, systemFault } from '#lib/system-faults.ts'
import type { Progress } from '#runtime/start/control.ts'

/** Belongs to the running process, or can be rebuilt from the log. */
const leftOut: ReadonlySet<string> = new Set([
  ...['run', 'owner.pid', 'lock.sqlite', 'lock.sqlite-journal'],
  ...[folders.vectors, folders.mirror, `${folders.relational}.new`],
])
/** Files that are copied at the same time. */
const filesAtOnce = 16
const sqliteFull = 13

interface CopyParts {
  home: string
  /** Made by the copy; removed again when it fails. */
  folder: string
  /** Runs `work` while the database takes no writes. */
  frozen(work: () => Promise<void>): Promise<void>
  progress(state: Progress): void
  signal: AbortSignal
}

/**
 * Copies the state of one instant. The database takes no writes while its files are copied, and the log's instant lies in
 * that time: so the log has every record that the database knows of, and the database every change that a record tells
 * of, as after a kill -9 (docs/backup.md). Throws AppError `not_found`, `conflict`, `invalid_configuration` (for example
 * a full disk) or `shutting_down`.
 */
export async function copyPlatform({ home, folder, frozen, progress, signal }: CopyParts): Promise<void> {
  demandData(home)
  demandSpace(home, folder)
  let log: Awaited<ReturnType<typeof snapshotLog>> | undefined
  try {
    makeFolder(dirname(folder))
    await mkdir(folder, { mode: 0o700 })
    await frozen(async () => {
      log = await snapshotLog(home)
      const files = await filesOf(home)
      let done = 0
      while (done < files.length) {
        demandGoingOn(signal)
        const some = files.slice(done, done + filesAtOnce)
        await Promise.all(some.map((name) => copyOne(join(home, name), join(folder, name))))
        done += some.length
        progress({ label: 'copying the database and files', done, total: files.length })
      }
    })
    demandGoingOn(signal)
    await log?.copyTo(join(folder, folders.eventLog), (done, total) =>
      progress({ label: 'copying the log', done, total }),
    )
    demandGoingOn(signal)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw explained(error, folder)
  } finally {
    log?.close()
  }
}

function demandData(home: string): void {
  const known = [folders.eventLog, folders.relational].map((name) => join(home, name))
  if (known.every((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory())) return
  throw new AppError(
    'not_found',
    `${home} holds no platform: name the data directory to be backed up in FLOTILLA_HOME.`,
  )
}

/** Refuses at once what would fill the disk, which may be the one that the platform writes to. */
function demandSpace(home: string, folder: string): void {
  const { bavail, bsize } = statfsSync(presentPart(dirname(folder)))
  const needed = [folders.eventLog, folders.relational].reduce(
    (sum, name) => sum + bytesBelow(join(home, name)),
    0,
  )
  if (bavail * bsize > needed) return
  const mebibytes = (bytes: number) => Math.ceil(bytes / 2 ** 20)
  throw new AppError(
    'invalid_configuration',
    `${dirname(folder)}: the disk has ${mebibytes(bavail * bsize)} MiB left, and the backup may need ${mebibytes(needed)} MiB: make room, or name another disk.`,
  )
}

function bytesBelow(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => {
      // Files come and go meanwhile.
      const file = statSync(join(parentPath, name), { throwIfNoEntry: false })
      return sum + (file?.size ?? 0)
    }, 0)
}

/** Names of files, and of folders with a slash behind, each folder before what is in it. The log is copied apart. */
async function filesOf(home: string, below = ''): Promise<string[]> {
  const found: string[] = []
  for (const entry of await readdir(join(home, below), { withFileTypes: true })) {
    if (below === '' && (leftOut.has(entry.name) || entry.name === folders.eventLog)) continue
    const name = join(below, entry.name)
    if (entry.isDirectory()) found.push(`${name}/`, ...(await filesOf(home, name)))
    else if (entry.isFile() || (entry.isSymbolicLink() && (await isFile(join(home, name))))) found.push(name)
  }
  return found
}

/** What a link points to may lie elsewhere, as a targets file does: its content is copied. */
async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}

async function copyOne(from: string, to: string): Promise<void> {
  if (from.endsWith('/')) await mkdir(to, { mode: 0o700, recursive: true })
  else {
    await mkdir(dirname(to), { mode: 0o700, recursive: true })
    // Where the file system can, the copy shares its blocks with the file, which takes no time.
    await copyFile(from, to, constants.COPYFILE_FICLONE)
  }
}

function demandGoingOn(signal: AbortSignal): void {
  if (signal.aborted) throw new AppError('shutting_down', 'The backup was cancelled.')
}

/** SQLite has words of its own for a full disk. */
function explained(error: unknown, folder: string): unknown {
  if (error instanceof AppError) return error
  if ((error as { errcode?: number }).errcode === sqliteFull) {
    return new AppError(fileFaultCode(error), `${folder}: the disk is full.`, { cause: error })
  }
  return systemFault(error) ?? error
}
