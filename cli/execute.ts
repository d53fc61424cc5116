/** Chooses where an operation runs: in the platform that is running, or in this process on engines opened for it. */

import type { Static, TObject } from 'typebox'
import type { Operation } from '#operations/operation.ts'
import { ControlUnreachable, callControl, findControlSocket } from '#runtime/control.ts'
import { choicesOf, homeOf } from '#runtime/settings.ts'
import type { Session } from './run-here.ts'
import { systemUser } from './system-user.ts'

/**
 * Distributed engines are reached directly. Embedded ones belong to the running platform, which runs the operation for
 * us; where none runs, they are opened here under the lock of the data directory.
 */
export async function execute<S extends TObject, R, I>(
  operation: Operation<S, R, I>,
  args: Static<S>,
  session: Session<I>,
): Promise<R> {
  const embedded = Object.values(choicesOf(session.env)).some((choice) => choice.embedded)
  const socket = embedded ? findControlSocket(homeOf(session.env)) : null
  if (socket) {
    const request = { operation: operation.name, args, user: systemUser() }
    try {
      return (await callControl(socket, request, session.output, session.signal)) as R
    } catch (error) {
      if (!(error instanceof ControlUnreachable)) throw error
    }
  }
  // Loaded only here: with a running platform none of it is needed.
  const { runHere } = await import('./run-here.ts')
  return runHere(operation, args, session, embedded)
}
