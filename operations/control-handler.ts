/** The running platform's side of the command line. */

import { AppError } from '#lib/errors.ts'
import type { ControlHandler } from '#runtime/control.ts'
import type { Platform } from '#runtime/platform.ts'
import type { Command } from './operation.ts'

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
