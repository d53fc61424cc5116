/** Sends an event to one target, to see that it arrives: it goes the way of every other delivery, behind what waits. */

import { Type } from 'typebox'
import { ulid } from 'ulid'
import { AppError } from '#lib/errors.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { createDeliveries } from '#services/webhooks/fire/events/deliveries.ts'
import { prepareEvent } from '#services/webhooks/fire/events/event-body.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { defineChange } from '../change.ts'
import { readTargetSettings } from './target-settings.ts'

/** Who the event is of, where the target wants those of all agents. */
const testAgent = 'flotilla'
const publishTimeoutMs = 5_000

export interface SentTest {
  target: string
  sequence: number
  event: string
  idempotency_key: string
}

/** Throws AppError `not_found`, `conflict` for a target that is not in the file, `log_unavailable`. */
export const testTargetOperation = defineChange({
  name: 'webhooks test',
  action: 'webhook.test',
  targetOf: ({ target }) => target,
  needs: [],
  args: Type.Object({ target: Type.String() }),
  async run({ platform, actor, requestId, describe }, { target }): Promise<SentTest> {
    const partition = (await readAssignments(platform.engines.relational)).get(target)
    if (partition === undefined) {
      throw new AppError('not_found', `No webhook target ${target.slice(0, 64).toWellFormed()} is known.`)
    }
    const settings = readTargetSettings(platform.env, target)
    if (!settings) {
      throw new AppError(
        'conflict',
        `${target} is not in the targets file: the courier would park the event.`,
      )
    }
    const prepared = prepareEvent(
      Buffer.from(
        JSON.stringify({
          // One that the target asks for.
          event: settings.events?.[0] ?? 'task.completed',
          agent: settings.agents?.[0] ?? testAgent,
          task_id: `test-${ulid()}`,
          result: { test: true, sent_by: actor.id },
          ts: Math.floor(Date.now() / 1_000),
        }),
      ),
    )
    const deliveries = createDeliveries(platform.publisher, { partitionOf: async () => partition })
    const headers = requestId === undefined ? {} : { [headerNames.requestId]: requestId }
    const request = { event: prepared, receivedAtMs: Date.now(), headers }
    const [position] = await deliveries.publish(target, [request], publishTimeoutMs)
    const sequence = position!.offset
    describe({ after: { sequence, idempotency_key: prepared.idempotency_key } })
    return { target, sequence, event: prepared.event, idempotency_key: prepared.idempotency_key }
  },
})
