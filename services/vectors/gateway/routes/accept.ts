/** What upsert and delete share: publish, count the backlog, and answer 202 (or, when asked to wait, 200 or 502). */

import type { FastifyReply } from 'fastify'
import { AppError } from '#lib/errors.ts'
import type { Position } from '#runtime/publish/messages.ts'
import type { Reservation } from '../../read/operations/backlog.ts'
import type { Gateway } from '../gateway.ts'

interface Acceptance {
  collection: string
  /** Points or ids of the request. */
  points: number
  operation: string
  wait: boolean
  reservation: Reservation
  publish(): Promise<Position[]>
}

export interface AcceptedAnswer {
  operation_id: string
  status: 'accepted' | 'applied'
  collection: string
  points: number
}

/** Throws AppError `log_unavailable`, or `operation_failed` (502) when the caller waits and a point fails. */
export async function acceptPoints(
  gateway: Pick<Gateway, 'operations'>,
  reply: FastifyReply,
  { collection, points, operation, wait, reservation, publish }: Acceptance,
): Promise<AcceptedAnswer> {
  const positions = await publish()
  reservation.accepted(positions)
  const made = gateway.operations.of(operation, positions)
  const operation_id = gateway.operations.idOf(made)
  const state = wait ? await gateway.operations.wait(made) : ({ status: 'accepted' } as const)
  if (state.status === 'failed') {
    throw new AppError('operation_failed', `The operation failed: ${state.error}`, { statusCode: 502 })
  }
  reply.code(state.status === 'applied' ? 200 : 202)
  return { operation_id, status: state.status, collection, points }
}
