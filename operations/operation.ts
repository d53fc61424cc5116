/** What a command is: the engines it needs and one function, run in the process that owns the embedded engines. */

import type { Output } from '#runtime/control.ts'
import type { Platform } from '#runtime/platform.ts'
import type { EngineName } from '#runtime/service.ts'

export interface CommandContext {
  platform: Platform
  /** Items and progress on the way to the result. */
  output: Output
  /** Aborts when the operator gave up. */
  signal: AbortSignal
}

export interface Command<A extends object, R> {
  name: string
  /** Beside log, registry and database. */
  needs: readonly EngineName[]
  /** Services that must run for it; where no platform runs on this data directory, they run within the command. */
  services?: readonly string[]
  /** The result must survive JSON. */
  run(context: CommandContext, args: A): Promise<R>
}

export function defineCommand<A extends object, R>(command: Command<A, R>): Command<A, R> {
  return command
}
