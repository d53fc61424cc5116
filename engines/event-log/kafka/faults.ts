/** Recognises Kafka's faults by their name in the protocol, and makes the AppErrors that leave the driver. */

import { AppError } from '#lib/errors.ts'

export function logUnavailable(cause?: unknown): AppError {
  return new AppError('log_unavailable', 'The event log does not answer; try again in a second.', {
    retryAfter: 1,
    ...(cause === undefined ? {} : { cause }),
  })
}

export function topicNotFound(topic: string): AppError {
  return new AppError('not_found', `The topic ${topic} does not exist.`)
}

export function partitionNotFound(topic: string, partition: number): AppError {
  return new AppError('not_found', `The topic ${topic} has no partition ${partition}.`)
}

/** The protocol's name of the refusal in an answer that @platformatic/kafka has thrown; null: it is no answer. */
export function refusalOf(error: unknown): string | null {
  return (error as { errors?: { apiId?: string }[] }).errors?.[0]?.apiId ?? null
}
