/** Runs a command on engines that are opened for it and closed again. */

import { createScope } from '#lib/resource.ts'
import type { Command } from '#operations/operation.ts'
import { createLog } from '#runtime/log.ts'
import { openPlatform } from '#runtime/platform.ts'
import { contextOf } from '#runtime/start.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import type { Session } from './execute.ts'

/** `lock`: some engine is embedded, so its data directory is taken and the services that it needs run beside it. */
export async function runHere<A extends object, R>(
  command: Command<A, R>,
  args: A,
  session: Session,
  lock: boolean,
): Promise<R> {
  const log = createLog({ level: session.env.LOG_LEVEL || 'warn', pretty: process.stderr.isTTY })
  // Distributed engines are worked on by services elsewhere.
  const beside = lock ? services.filter((service) => command.services?.includes(service.name)) : []
  const scope = createScope()
  try {
    const platform = await openPlatform({
      migrations: migrationFolders,
      env: session.env,
      needs: [...command.needs, ...beside.flatMap((service) => service.needs)],
      producerName: 'flotilla-command',
      log,
      lock,
      signal: session.signal,
    })
    scope.add('platform', platform)
    for (const service of beside) {
      if (service.kind !== 'worker') continue
      scope.add(service.name, await service.start(contextOf(service, platform, session.env) as never))
    }
    return await command.run({ platform, output: session.output, signal: session.signal }, args)
  } finally {
    await scope.close()
  }
}
