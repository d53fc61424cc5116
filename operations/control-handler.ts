/** What a running platform does with an operation that the command line hands to it over the control socket. */

import { Value } from 'typebox/value'
import { AppError } from '#lib/errors.ts'
import { requestSentence, wordedFaults } from '#lib/schema-faults.ts'
import type { ControlHandler } from '#runtime/start/control.ts'
import type { Platform } from '#runtime/start/platform.ts'
import type { Operation } from './operation.ts'

/**
 * The handler throws AppError `not_found` for an unknown operation, `bad_request` for arguments that do not fit its
 * schema, and `conflict` where this process has not opened an engine that it needs.
 */
export function createControlHandler(
  operations: readonly Operation[],
): (platform: Platform) => ControlHandler {
  return (platform) => async (request, output, signal) => {
    const operation = operations.find((one) => one.name === request.operation)
    if (!operation) {
      throw new AppError(
        'not_found',
        `The running platform does not know the operation ${request.operation}.`,
      )
    }
    const { args } = request
    if (!Value.Check(operation.args, args)) {
      const [fault] = wordedFaults(Value.Errors(operation.args, args), operation.args, args)
      const said = fault
        ? `${fault.path || 'arguments'}: ${requestSentence(fault)}`
        : 'its arguments are not valid'
      throw new AppError('bad_request', `${operation.name}: ${said}.`)
    }
    const missing = (operation.needs ?? []).filter((engine) => platform.engines[engine] === undefined)
    if (missing.length > 0) {
      throw new AppError(
        'conflict',
        `The process that runs on this data directory has not opened ${missing.join(', ')}.`,
      )
    }
    // A command of an earlier release does not say. Whoever reaches the socket is the owner of the platform.
    const { user } = request
    const id = typeof user === 'string' && user !== '' ? user : 'unknown'
    const actor = { kind: 'command_line', id } as const
    return operation.run({ platform, output, signal, actor }, args)
  }
}
