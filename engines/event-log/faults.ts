/** The AppErrors that leave the drivers of the event log. */

import { withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'

export function logUnavailable(cause?: unknown): AppError {
  return new AppError('log_unavailable', 'The event log does not answer; try again in a second.', {
    retryAfter: 1,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The result; AppError `log_unavailable` when the engine fails or `ms` pass first. */
export async function bounded<T>(promise: Promise<T>, ms: number): Promise<T> {
  try {
    return await withTimeout(promise, ms, () => logUnavailable(new Error(`no answer within ${ms} ms`)))
  } catch (error) {
    throw error instanceof AppError ? error : logUnavailable(error)
  }
}

export function topicNotFound(topic: string): AppError {
  return new AppError('not_found', `The topic ${topic} does not exist.`)
}

export function partitionNotFound(topic: string, partition: number): AppError {
  return new AppError('not_found', `The topic ${topic} has no partition ${partition}.`)
}

export function groupActive(group: string): AppError {
  return new AppError('group_active', `The group ${group} has members; stop them first.`)
}
