/** A command and its arguments in; its result out, from the running platform or from engines opened here. */

import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { createScope } from '#lib/resource.ts'
import { type ControlHandler, callControl, findControlSocket, type Output } from '#runtime/control.ts'
import { createLog } from '#runtime/log.ts'
import { choicesOf, homeOf, openPlatform, type Platform } from '#runtime/platform.ts'
import { contextOf } from '#runtime/start.ts'
import { services } from '#services/index.ts'
import type { Command } from './command.ts'

export interface Session {
  env: Environment
  output: Output
  signal: AbortSignal
}

/**
 * Runs the command. Distributed engines are reached directly. Embedded ones belong to the running platform, which runs
 * the command for us; where none runs, they are opened here under the lock of the data directory.
 */
export async function execute<A extends object, R>(
  command: Command<A, R>,
  args: A,
  session: Session,
): Promise<R> {
  const embedded = Object.values(choicesOf(session.env)).some((choice) => choice.embedded)
  const socket = embedded ? findControlSocket(homeOf(session.env)) : null
  if (socket) {
    const request = { command: command.name, args: args as Record<string, unknown> }
    return (await callControl(socket, request, session.output, session.signal)) as R
  }
  return runHere(command, args, session, embedded)
}

/** Answers commands that come in over the control socket of a running platform. */
export function createControlHandler(
  commands: readonly Command<never, unknown>[],
): (platform: Platform) => ControlHandler {
  return (platform) => async (request, output, signal) => {
    const command = commands.find((one) => one.name === request.command)
    if (!command) {
      throw new AppError('not_found', `The running platform does not know the command ${request.command}.`)
    }
    const missing = command.needs.filter((engine) => platform.engines[engine] === undefined)
    if (missing.length > 0) {
      throw new AppError(
        'conflict',
        `The process that runs on this data directory has not opened ${missing.join(', ')}.`,
      )
    }
    return command.run({ platform, output, signal }, request.args as never)
  }
}

async function runHere<A extends object, R>(
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
