/**
 * Puts the files of a backup into an empty data directory. Until the restore is finished the directory is marked: no start
 * takes it, and the next restore begins again.
 */

import { existsSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { dataDirectoryFault, openDataDirectory, restoringFile } from '#lib/data-directory.ts'
import { AppError } from '#lib/errors.ts'
import { makeFolder, syncPath, syncTree, writeSynced } from '#lib/files.ts'
import { systemFault } from '#lib/system-faults.ts'
import { type ArchiveRun, type ArchiveSink, type Manifest, readArchive } from './archive.ts'

/** What the directory's lock and its owner need, and the mark: they stay while the rest is removed. */
const ownFiles: ReadonlySet<string> = new Set([
  ...[restoringFile, 'run', 'owner.pid'],
  ...['lock.sqlite', 'lock.sqlite-journal'],
])

/**
 * Unpacks `file` into `home` and then runs `finish` on it, both under the directory's lock; removes the mark at the end.
 * Where unpacking fails the directory is left empty. Throws AppError `conflict` for a directory that is not empty, and
 * what `readArchive` throws.
 */
export async function restoreInto<T>(
  { home, file }: { home: string; file: string },
  run: ArchiveRun,
  finish: (manifest: Manifest) => Promise<T>,
): Promise<T> {
  demandEmpty(home)
  makeFolder(home)
  const mark = join(home, restoringFile)
  try {
    writeSynced(mark, `${file}\n`)
    syncPath(home)
  } catch (error) {
    throw systemFault(error) ?? error
  }
  const directory = await openDataDirectory(home, { restoring: true })
  try {
    const manifest = await unpack(home, file, run)
    const result = await finish(manifest)
    rmSync(mark)
    syncPath(home)
    return result
  } finally {
    await directory.close()
  }
}

async function unpack(home: string, file: string, run: ArchiveRun): Promise<Manifest> {
  const clear = (kept: ReadonlySet<string>) => {
    for (const name of readdirSync(home)) {
      if (!kept.has(name)) rmSync(join(home, name), { recursive: true, force: true })
    }
  }
  try {
    // An earlier restore may have ended in the midst.
    clear(ownFiles)
    const manifest = await readArchive(file, sinkInto(home), run)
    syncTree(home)
    return manifest
  } catch (error) {
    clear(new Set())
    throw error
  }
}

/** Throws AppError `conflict`; a folder that an earlier restore has marked counts as empty. */
function demandEmpty(home: string): void {
  if (existsSync(join(home, restoringFile))) return
  const fault = dataDirectoryFault(home)
  if (fault) throw fault
  if (!existsSync(home) || readdirSync(home).length === 0) return
  throw new AppError(
    'conflict',
    `${home} is not empty: a backup is restored into an empty folder. Name another one in FLOTILLA_HOME, or move this one away.`,
  )
}

/** Files get their owner's rights alone, as in the backup. */
function sinkInto(home: string): ArchiveSink {
  return {
    folder: (name) => makeFolder(join(home, name)),
    file(name, mode) {
      const path = join(home, name)
      makeFolder(dirname(path))
      return open(path, 'wx', mode)
    },
  }
}
