/** Operations that change something: each leaves who did it, to what, and how it ended, also when it is refused or fails. */

import type { Static, TObject } from 'typebox'
import { v7 as uuidv7 } from 'uuid'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { backoffMs, sleep } from '#lib/backoff.ts'
import { AppError, describeError, isUnavailable } from '#lib/errors.ts'
import { meansLater } from '#lib/system-faults.ts'
import { publicError } from '#runtime/http/problem.ts'
import {
  type ChangeDetails,
  type ChangeNotes,
  writeAdminAction,
} from '#services/access/admin-audit/admin-audit.ts'
import type { OperationContext } from './operation.ts'

export interface ChangeContext<I = never> extends OperationContext<I>, ChangeNotes {}

export interface Change<S extends TObject> {
  /** Noun and verb, as the audit has it: `agent.provision`. */
  action: string
  target(args: Static<S>): string
  /** A trial changes nothing, and leaves no action. */
  isTrial?(args: Static<S>): boolean
}

type Run<C, S extends TObject, R> = (context: C, args: Static<S>) => Promise<R>

const unnoted: ChangeNotes = { note: async () => {}, describe() {} }

/** The change is done by then; the database may be back within this time. */
const noteWithinMs = 10_000
const noteBackoff = { baseMs: 50, maxMs: 1_000 }

/**
 * `run`, noted; without a change as it is. It is refused while the database is away, because nothing could be noted then.
 * An action is noted once: what `run` notes in its transaction counts, whatever comes after.
 */
export function noting<S extends TObject, R, I>(
  change: Change<S> | undefined,
  run: Run<ChangeContext<I>, S, R>,
): Run<OperationContext<I>, S, R> {
  return async (context, args) => {
    if (!change || change.isTrial?.(args)) return run({ ...context, ...unnoted }, args)
    const { action } = change
    const { actor, requestId, platform } = context
    const { relational } = platform.engines
    const id = uuidv7()
    const write = (executor: SqlExecutor, details: ChangeDetails) =>
      writeAdminAction(executor, {
        id,
        actor,
        action,
        target: change.target(args),
        outcome: 'done',
        ...(requestId === undefined ? {} : { requestId }),
        ...described,
        ...details,
      })
    let described: ChangeDetails = {}
    let noted = false
    const note = async (tx: SqlExecutor, details: ChangeDetails = {}) => {
      await write(tx, details)
      noted = true
    }
    const describe = (details: ChangeDetails) => {
      described = { ...described, ...details }
    }
    await relational.ping()
    let result: R
    try {
      result = await run({ ...context, note, describe }, args)
    } catch (error) {
      // Already written where the transaction of the change was committed.
      await relational
        .transaction((tx) => write(tx, endOf(error)))
        .catch((fault: unknown) =>
          platform.log.error({ action, reason: describeError(fault) }, 'admin-audit.not-written'),
        )
      throw error
    }
    if (!noted) await untilWritten(() => relational.transaction((tx) => write(tx, {})))
    return result
  }
}

/** Refused: by a rule or a limit; failed: by a fault of the platform, or because the operator gave up. */
function endOf(error: unknown): ChangeDetails {
  if (!(error instanceof AppError)) return { outcome: 'failed', reason: publicError(error).code }
  return { outcome: error.statusCode < 500 ? 'refused' : 'failed', reason: error.code }
}

async function untilWritten(write: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + noteWithinMs
  for (let tries = 0; ; tries++) {
    try {
      await write()
      return
    } catch (error) {
      if (!isUnavailable(error) && meansLater(error) === null) throw error
      if (performance.now() > end) {
        throw new AppError(
          'relational_engine_unavailable',
          'It is done, but who did it could not be noted: the relational engine went away meanwhile.',
          { cause: error },
        )
      }
      await sleep(Math.max(20, backoffMs(tries, noteBackoff)))
    }
  }
}
