/** `flotilla restore`: puts a backup into an empty data directory, and makes what was left out of it. */

import { resolve } from 'node:path'
import type { Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { readArchive } from '#operations/backup/archive.ts'
import { demandEmbedded } from '#operations/backup/backup.ts'
import { beginAgainOperation, refillOperation } from '#operations/backup/refill.ts'
import { restoreInto } from '#operations/backup/restore.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import { type Cli, describe } from '../cli.ts'
import { createOutput, line, printResult } from '../output.ts'
import type { Session } from '../run-here.ts'

interface RestoreOptions {
  check?: boolean
  engines?: boolean
  json?: boolean
}

export function registerRestore(program: Program, cli: Cli): void {
  const command = program
    .command('restore')
    .argument('[file]', 'what flotilla backup wrote')
    .summary('put a backup into an empty FLOTILLA_HOME')
    .description(
      'put a backup into FLOTILLA_HOME, which must be empty, and fill the vector index from its log',
    )
    .option('--check', 'only read the backup and compare its checksums')
    .option(
      '--engines',
      'without a file: log and database are servers that were restored by their own tools; fill the vector index from the log',
    )
  describe(
    command,
    'FLOTILLA_HOME=/srv/flotilla flotilla restore /backups/flotilla.tar.zst\nflotilla restore --engines',
  ).action(async (named: string | undefined, options: RestoreOptions) => {
    if ((named === undefined) !== (options.engines === true)) {
      throw new AppError('bad_request', 'Name the file of a backup, or --engines without one.')
    }
    const output = createOutput(() => {})
    const session: Session = { env: cli.env, output, signal: cli.signal }
    try {
      const { text, ...result } =
        named === undefined
          ? await restoreEngines(session)
          : await restoreFile(session, resolve(named), options.check === true)
      output.end()
      printResult(options.json, result, () => text)
    } finally {
      output.end()
    }
  })
}

async function restoreFile(session: Session, file: string, check: boolean) {
  const { env, output, signal } = session
  const run = { progress: output.progress, signal }
  if (check) {
    const { version, begun_at, files } = await readArchive(file, undefined, run)
    const text = line`${file} is whole: ${files} files as of ${begun_at}, written by version ${version}`
    return { file, version, begun_at, files, text }
  }
  demandEmbedded(choicesOf(env))
  const home = homeOf(env)
  return restoreInto({ home, file }, run, async ({ version, begun_at, files }) => {
    // The directory's lock is held here.
    const { records } = await beginAgain(session, false)
    const text = line`${home} is as it was at ${begun_at}: ${files} files, and the vector index from ${records} records; flotilla start goes on from there`
    return { file, home, version, begun_at, files, records, text }
  })
}

async function restoreEngines(session: Session) {
  const choices = choicesOf(session.env)
  if (choices.eventLog.embedded || choices.relational.embedded) {
    throw new AppError(
      'conflict',
      'An embedded log or database is restored from the file of a backup: name it. For servers set KAFKA_BROKERS and DATABASE_URL.',
    )
  }
  const embedded = Object.values(choices).some((choice) => choice.embedded)
  const { records } = await beginAgain(session, embedded)
  const text = `the vector index is filled from ${records} records; start the services, then run flotilla rebuild relational`
  return { records, text }
}

/** Opened twice: the first changes where topics are, which an open platform remembers. */
async function beginAgain(session: Session, lock: boolean): Promise<{ records: number }> {
  const { runHere } = await import('../run-here.ts')
  const { generation } = await runHere(beginAgainOperation, {}, session, { lock, services: false })
  return runHere(refillOperation, { generation }, session, { lock, services: true })
}
