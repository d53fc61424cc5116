/** Runs an operation on engines that are opened for it and closed again. */

import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Static, TObject } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { createScope } from '#lib/resource.ts'
import type { Operation } from '#operations/operation.ts'
import { createLog, logLevel } from '#runtime/observe/log.ts'
import type { Output } from '#runtime/start/control.ts'
import { openPlatform } from '#runtime/start/platform.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { startWorkers } from '#runtime/start/start.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { systemUser } from './system-user.ts'

export interface Session<I = never> {
  env: Environment
  output: Output<I>
  signal: AbortSignal
}

interface OpenedHere {
  /** Some engine is embedded, so its data directory is locked. */
  lock: boolean
  /** The services that the operation needs run here, too; with distributed engines they usually run elsewhere. */
  services: boolean
}

export async function runHere<S extends TObject, R, I>(
  operation: Operation<S, R, I>,
  args: Static<S>,
  session: Session<I>,
  { lock, services: alsoServices }: OpenedHere,
): Promise<R> {
  const { env, output, signal } = session
  const log = createLog({ level: logLevel(env, 'warn'), terminal: process.stderr.isTTY })
  const needed = alsoServices ? services.filter(({ name }) => operation.services?.includes(name)) : []
  const workers = needed.filter((service) => service.kind === 'worker')
  const scope = createScope()
  if (lock) warnOfNewHome(env, log)
  try {
    const platform = await openPlatform({
      migrations: migrationFolders,
      env,
      needs: [...(operation.needs ?? []), ...needed.flatMap((service) => service.needs)],
      producerName: 'flotilla-command',
      log,
      lock,
      signal,
    })
    scope.add('platform', platform)
    scope.add('workers', await startWorkers(workers, platform))
    const actor = { kind: 'command_line', id: systemUser() } as const
    return await operation.run({ platform, output, signal, actor }, args)
  } finally {
    await scope.close()
  }
}

/** Whoever forgot FLOTILLA_HOME would take an empty platform for theirs. */
function warnOfNewHome(env: Environment, log: Logger): void {
  const home = homeOf(env)
  if (env.FLOTILLA_HOME || existsSync(home)) return
  log.warn({ home, hint: 'FLOTILLA_HOME names another' }, 'data-directory.new')
}
