/** Chooses the targets of an event, and publishes a record of webhooks.deliveries for each. */

import { createHash } from 'node:crypto'
import { ulid } from 'ulid'
import { AppError } from '#lib/errors.ts'
import {
  headerNames,
  type OutgoingMessage,
  type Position,
  type PublishOptions,
} from '#runtime/publish/messages.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import type { WebhookTarget, WebhookTargets } from '../../targets/target.ts'
import type { Assignments } from '../targets/assignments.ts'
import type { PreparedEvent } from './event-body.ts'

export interface DeliveryRequest {
  event: PreparedEvent
  receivedAtMs: number
  /** Headers of the record, for example the request id. */
  headers: Record<string, string>
  /** Id of the fleet event behind it: its repeats get the same event ids, by which consumers drop them. */
  sourceEventId?: string
}

export interface Deliveries {
  /**
   * Resolves with the positions in the order of the requests, once the log has all of them. Throws AppError of an engine
   * that is away, or `overloaded`; some may be stored then.
   */
  publish(target: string, requests: readonly DeliveryRequest[], timeoutMs: number): Promise<Position[]>
}

/** The used part of the platform's publisher. */
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

const namesShownMax = 20
const nameShownMax = 64

/**
 * Those whose `events` and `agents` lists match; of these only the named ones, when names are given. Throws AppError
 * `unknown_target` that lists the names which no target has; `bad_request` for a name that is empty.
 */
export function chooseTargets(
  { targets }: Pick<WebhookTargets, 'targets'>,
  event: { event: string; agent: string },
  named: readonly string[] | null,
): WebhookTarget[] {
  if (named) refuseUnknown(targets, named)
  const wanted = named && new Set(named)
  return [...targets.values()].filter(
    ({ name, events, agents }) =>
      (wanted === null || wanted.has(name)) &&
      (events === null || events.includes(event.event)) &&
      (agents === null || agents.includes(event.agent)),
  )
}

/** The names of `?targets=a,b&targets=c`; null when the caller named none at all. */
export function namesOf(query: string | string[] | undefined): string[] | null {
  if (query === undefined) return null
  const names = (Array.isArray(query) ? query : [query]).flatMap((text) => text.split(','))
  return [...new Set(names.map((name) => name.trim()))]
}

function refuseUnknown(targets: ReadonlyMap<string, WebhookTarget>, named: readonly string[]): void {
  if (named.includes('')) {
    throw new AppError(
      'bad_request',
      'targets holds an empty name: name targets, or leave it out to reach every target that wants the event.',
    )
  }
  const unknown = named.filter((name) => !targets.has(name))
  if (unknown.length === 0) return
  const shown = unknown.slice(0, namesShownMax).map((name) => printable(name.slice(0, nameShownMax)))
  throw new AppError('unknown_target', `Nothing was sent. There is no target named ${shown.join(', ')}.`, {
    errors: shown.map((name) => ({
      path: 'targets',
      message: `${name} is not a target of the targets file`,
    })),
  })
}

function printable(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?')
}
