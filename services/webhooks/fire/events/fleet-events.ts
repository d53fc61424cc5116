/** Delivers the platform's own events, the records of fleet.events, to targets as if they had been fired. */

import { deadlines } from '#lib/deadlines.ts'
import { AppError, isUnavailable } from '#lib/errors.ts'
import { done, type Outcome, park, unavailable } from '#lib/outcome.ts'
import {
  type ConsumerDependencies,
  type RunningConsumer,
  startBatchConsumer,
} from '#runtime/consume/consumer.ts'
import { headerNames, type Message } from '#runtime/publish/messages.ts'
import type { FleetEvent } from '#schemas/types.ts'
import { fleetEvents } from '#topics/catalog.ts'
import { withoutSecrets } from '../../targets/secrets.ts'
import type { WatchedTargets } from '../../targets/targets-file.ts'
import { chooseTargets, type Deliveries, type DeliveryRequest } from './deliveries.ts'
import { prepareEvent, refuseSecrets } from './event-body.ts'

const topic = fleetEvents
const publishTimeoutMs = deadlines.publish.fleetEventsMs
const callTimeoutMs = deadlines.handler.fleetEventsMs
/** Headers that belong to the event; the others belong to its record. */
const keptHeaders = [headerNames.requestId, headerNames.traceparent]

interface Parts {
  targets: Pick<WatchedTargets, 'current'>
  deliveries: Deliveries
}

export function startFleetEvents(dependencies: ConsumerDependencies, parts: Parts): Promise<RunningConsumer> {
  const { codec, eventLog } = dependencies
  return startBatchConsumer(dependencies, {
    group: 'webhook-relay',
    topic,
    batchRecordsMax: 200,
    batchBytesMax: 1024 * 1024,
    callTimeoutMs,
    retriesMax: 5,
    backoff: { baseMs: 200, maxMs: 10_000 },
    handle: createFleetHandler(parts),
    keptOf: withoutSecrets({ codec, topic, secrets: () => parts.targets.current().secrets }),
    probe: () => eventLog.ping(),
  })
}

/** All events of a batch for one target are published together, in their order. */
export function createFleetHandler({ targets, deliveries }: Parts) {
  return async function fireFleetEvents(messages: Message<FleetEvent>[]): Promise<Outcome[]> {
    const outcomes = new Array<Outcome>(messages.length).fill(done)
    const byTarget = new Map<string, DeliveryRequest[]>()
    const now = targets.current()
    messages.forEach((message, n) => {
      const prepared = prepare(message, now.secrets)
      if (typeof prepared === 'string') {
        outcomes[n] = park(prepared)
        return
      }
      for (const { name } of chooseTargets(now, prepared.event, null)) {
        byTarget.set(name, [...(byTarget.get(name) ?? []), prepared])
      }
    })
    try {
      await Promise.all(
        [...byTarget].map(([target, requests]) => deliveries.publish(target, requests, publishTimeoutMs)),
      )
    } catch (error) {
      if (!isUnavailable(error)) throw error
      // Deliveries already stored are published again under the same event ids.
      return outcomes.map((outcome) =>
        outcome.kind === 'park' ? outcome : unavailable('webhook deliveries', error.message),
      )
    }
    return outcomes
  }
}

/** A string is the reason to park the event: repeating it would not help. */
function prepare(message: Message<FleetEvent>, secrets: readonly string[]): DeliveryRequest | string {
  const { value, headers } = message
  if (value === null) return 'the event has no value'
  const { event, agent, task_id, result, ts } = value
  try {
    const fields = { event, agent, task_id, ts }
    JSON.parse(result)
    const text = `${JSON.stringify(fields).slice(0, -1)},"result":${result}}`
    const prepared = prepareEvent(Buffer.from(text))
    refuseSecrets(prepared, secrets)
    return {
      event: prepared,
      receivedAtMs: message.timestamp,
      headers: Object.fromEntries(
        keptHeaders.flatMap((name) => (headers[name] ? [[name, headers[name]]] : [])),
      ),
      sourceEventId: headers[headerNames.eventId] ?? `${message.partition}/${message.offset}`,
    }
  } catch (error) {
    if (error instanceof SyntaxError) return 'invalid_json: the result is not JSON'
    if (!(error instanceof AppError)) throw error
    const faults = (error.errors ?? []).map(({ path, message: fault }) => `${path} ${fault}`)
    return [error.code, ...faults].join(': ')
  }
}
