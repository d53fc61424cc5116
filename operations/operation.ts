/**
 * What an operation is: something that operators do to the platform, as data and one function. The command line prints
 * its result; whoever answers requests from outside checks the arguments against its schema first.
 */

import type { Static, TObject } from 'typebox'
import type { Output } from '#runtime/start/control.ts'
import type { Platform } from '#runtime/start/platform.ts'
import type { EngineName } from '#runtime/start/service.ts'
import type { Actor } from '#services/access/admin-audit/admin-audit.ts'

/** What operations work on; who runs one closes the platform. */
export type OperatedPlatform = Omit<Platform, 'close'>

export interface OperationContext<I = never> {
  platform: OperatedPlatform
  /** Items and progress on the way to the result. */
  output: Output<I>
  /** Aborts when the operator gave up. */
  signal: AbortSignal
  /** Who asks for it: changes are noted under this name. */
  actor: Actor
  /** Id of the HTTP request behind it. */
  requestId?: string
}

/**
 * `S` is the schema of its arguments, `R` its result and `I` the items on the way to it; `never` where there are none.
 * Result and items must survive JSON. `run` is a method, so that a list can hold operations of different arguments.
 */
export interface Operation<S extends TObject = TObject, R = unknown, I = unknown> {
  name: string
  /** Besides log, registry and database. */
  needs?: readonly EngineName[]
  /** Services that must run for it; where no platform runs on this data directory, they run within the command. */
  services?: readonly string[]
  args: S
  /** Name in the admin audit (noun and verb) of an operation that changes something. */
  action?: string
  run(context: OperationContext<I>, args: Static<S>): Promise<R>
}

export function defineOperation<S extends TObject, R, I = never>(
  operation: Operation<S, R, I>,
): Operation<S, R, I> {
  return operation
}
