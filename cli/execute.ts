/** A command and its arguments in; its result out, from the running platform or from engines opened here. */

import type { Environment } from '#lib/config.ts'
import type { Command } from '#operations/operation.ts'
import { ControlUnreachable, callControl, findControlSocket, type Output } from '#runtime/control.ts'
import { choicesOf, homeOf } from '#runtime/settings.ts'

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
    try {
      return (await callControl(socket, request, session.output, session.signal)) as R
    } catch (error) {
      if (!(error instanceof ControlUnreachable)) throw error
    }
  }
  // Loaded only here: beside a running platform a command needs none of it.
  const { runHere } = await import('./run-here.ts')
  return runHere(command, args, session, embedded)
}
