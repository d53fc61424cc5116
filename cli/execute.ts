/** Chooses where an operation runs: in the platform that is running, or in this process on engines opened for it. */

import type { Static, TObject } from 'typebox'
import { AppError } from '#lib/errors.ts'
import type { Operation } from '#operations/operation.ts'
import { ControlUnreachable, callControl, findControlSocket } from '#runtime/start/control.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
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
  const answer = embedded ? await executeInPlatform<R, I>(operation.name, args, session) : undefined
  if (answer !== undefined) return answer
  // Loaded only here: with a running platform none of it is needed.
  const { runHere } = await import('./run-here.ts')
  return runHere(operation, args, session, { lock: embedded, services: embedded })
}

/**
 * As `execute`, but no embedded engine is opened for it: it would keep a platform that is away for a moment from starting. Throws AppError
 * `shutting_down` where none runs.
 */
export async function executeRunning<S extends TObject, R, I>(
  operation: Operation<S, R, I>,
  args: Static<S>,
  session: Session<I>,
): Promise<R> {
  if (!Object.values(choicesOf(session.env)).some((choice) => choice.embedded)) {
    return execute(operation, args, session)
  }
  const answer = await executeInPlatform<R, I>(operation.name, args, session)
  if (answer !== undefined) return answer
  const home = homeOf(session.env)
  throw new AppError('shutting_down', `No platform runs on ${home}: start it with flotilla start.`)
}

/** What the platform that runs on this data directory answers; undefined where none runs. */
export async function executeInPlatform<R, I = never>(
  operation: string,
  args: unknown,
  { env, output, signal }: Session<I>,
): Promise<R | undefined> {
  const socket = findControlSocket(homeOf(env))
  if (!socket) return undefined
  try {
    return (await callControl(socket, { operation, args, user: systemUser() }, output, signal)) as R
  } catch (error) {
    if (!(error instanceof ControlUnreachable)) throw error
    return undefined
  }
}
