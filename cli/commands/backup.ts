/** `flotilla backup`: the data directory's state of one instant in one file, while the platform runs or not. */

import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve, sep } from 'node:path'
import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { syncPath } from '#lib/files.ts'
import { readArchive, writeArchive } from '#operations/backup/archive.ts'
import { type Copied, copyOperation, copyStopped } from '#operations/backup/backup.ts'
import { isAlive } from '#runtime/start/addresses.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { type Cli, describe } from '../cli.ts'
import { executeInPlatform } from '../execute.ts'
import { createOutput, line, platformVersion, printResult } from '../output.ts'

/** A backup into a folder. */
const namedByTime = /^flotilla-[\dT-]+Z\.tar\.zst$/

export function registerBackup(program: Program, cli: Cli): void {
  const command = program
    .command('backup')
    .argument('<file|dir>', 'a file that does not exist, or a folder that gets one named by the time')
    .summary('all that cannot be made again, in one file')
    .description(
      'all that cannot be made again (log, database, keys, files) in one file, mode 0600, while the platform runs or not',
    )
  describe(command, 'flotilla backup /backups/flotilla.tar.zst\nflotilla backup /backups').action(
    async (target: string, { json }: { json?: boolean }) => {
      const result = await backUp(cli, target)
      const { file, bytes, files, begun_at } = result
      const size = `${(bytes / 2 ** 20).toFixed(1)} MiB`
      printResult(json, result, () => {
        return line`${file}: ${size}, ${files} files as of ${begun_at}; read back, every checksum is right`
      })
    },
  )
}

/** The file gets its name when it is whole and was read back. */
async function backUp({ env, signal }: Cli, target: string) {
  const home = homeOf(env)
  const file = fileFor(target, home)
  removeLeftOvers(file)
  const partial = `${file}.${hostname()}.${process.pid}.partial`
  const output = createOutput(() => {})
  try {
    // The copy lies next to the file: it is moved by a rename, and on the disk that the operator chose.
    const folder = join(partial, 'data')
    const session = { env, output, signal }
    const { begun_at } =
      (await executeInPlatform<Copied>(copyOperation.name, { folder }, session)) ??
      (await copyStopped(env, folder, session))
    const archive = join(partial, basename(file))
    const run = { progress: output.progress, signal }
    await writeArchive({ folder, file: archive, version: platformVersion(), begun_at }, run)
    rmSync(folder, { recursive: true, force: true })
    const { version, files } = await readArchive(archive, undefined, run)
    if (existsSync(file)) throw exists(file)
    renameSync(archive, file)
    syncPath(dirname(file))
    return { file, bytes: statSync(file).size, files, begun_at, version }
  } finally {
    rmSync(partial, { recursive: true, force: true })
    output.end()
  }
}

/** Throws AppError `bad_request` or `conflict` for a place where no backup may be written. */
function fileFor(target: string, home: string): string {
  const path = resolve(target)
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '-')
  const file = isFolder ? join(path, `flotilla-${stamp}Z.tar.zst`) : path
  if (`${file}${sep}`.startsWith(`${home}${sep}`)) {
    throw new AppError(
      'bad_request',
      `${file} is inside of the data directory: name a place outside, best on another disk.`,
    )
  }
  if (existsSync(file)) throw exists(file)
  return file
}

function exists(file: string): AppError {
  return new AppError(
    'conflict',
    `${file} exists: a backup replaces nothing. Name another file, or a folder.`,
  )
}

/** What commands of this machine left there that were killed: of this file, or of one that was named by the time. */
function removeLeftOvers(file: string): void {
  const folder = dirname(file)
  if (!existsSync(folder)) return
  for (const name of readdirSync(folder)) {
    const [, pid] = /\.(\d+)\.partial$/.exec(name) ?? []
    if (pid === undefined || isAlive(Number(pid))) continue
    const made = name.slice(0, -`.${hostname()}.${pid}.partial`.length)
    const isOurs = name === `${made}.${hostname()}.${pid}.partial`
    if (isOurs && (made === basename(file) || namedByTime.test(made))) {
      rmSync(join(folder, name), { recursive: true, force: true })
    }
  }
}
