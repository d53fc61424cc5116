/** Publishes events to webhooks.deliveries, one record for each target that wants them. */

import { createHash } from 'node:crypto'
import { ulid } from 'ulid'
import {
  headerNames,
  type OutgoingMessage,
  type Position,
  type PublishOptions,
} from '#runtime/publish/messages.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { Assignments } from '../targets/assignments.ts'
import type { PreparedEvent } from './event-body.ts'

export interface DeliveryRequest {
  event: PreparedEvent
  receivedAtMs: number
  /** Headers of the record, for example the request id. */
  headers: Record<string, string>
  /** Of the fleet event that it comes from: repeats of it get the same event ids, by which consumers drop them. */
  sourceEventId?: string
}

export interface Deliveries {
  /**
   * Resolves with the positions in the order of the requests, once the log has all of them. Throws AppError of an engine
   * that is away, or `overloaded`; some may be stored then.
   */
  publish(target: string, requests: readonly DeliveryRequest[], timeoutMs: number): Promise<Position[]>
}

/** What is needed of the platform's publisher. */
interface DeliveryPublisher {
  publish(
    topic: typeof webhooksDeliveries,
    messages: DeliveryMessage[],
    options: PublishOptions,
  ): Promise<Position[]>
}

export type DeliveryMessage = OutgoingMessage<string, WebhookDelivery>

export function createDeliveries(
  publisher: DeliveryPublisher,
  assignments: Pick<Assignments, 'partitionOf'>,
): Deliveries {
  return {
    async publish(target, requests, timeoutMs) {
      const partition = await assignments.partitionOf(target)
      const messages = requests.map((request) => messageOf(target, request))
      return publisher.publish(webhooksDeliveries, messages, { partition, timeoutMs })
    },
  }
}

function messageOf(
  target: string,
  { event, receivedAtMs, headers, sourceEventId }: DeliveryRequest,
): DeliveryMessage {
  const { event: kind, agent, task_id, idempotency_key, body } = event
  return {
    key: target,
    value: {
      target,
      event: kind,
      agent,
      task_id,
      idempotency_key,
      webhook_id: ulid(receivedAtMs),
      body,
      received_at: receivedAtMs,
      sequence: null,
      replay: false,
    },
    headers: { ...headers, [headerNames.agent]: agent },
    ...(sourceEventId === undefined ? {} : { eventId: eventIdOf(sourceEventId, target) }),
  }
}

/** The same for every copy of the fleet event. */
export function eventIdOf(sourceEventId: string, target: string): string {
  return createHash('sha256').update(sourceEventId).update('\0').update(target).digest('hex').slice(0, 32)
}
