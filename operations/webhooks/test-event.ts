/**
 * Sends an event to one target, to see that it arrives: it goes the way of every other delivery, behind what waits. The
 * list of what people and operators do with webhooks.
 */

import { Type } from 'typebox'
import { ulid } from 'ulid'
import { AppError } from '#lib/errors.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { createDeliveries } from '#services/webhooks/fire/events/deliveries.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { type Action, defineAction } from '../action.ts'
import { listAttemptsAction } from './attempts.ts'
import { deliveryLetters } from './delivery-letters.ts'
import { forgetTargetAction, skipHeadAction } from './skip.ts'
import { readTargetSettings, targetInPath, targetProblems } from './target-settings.ts'
import { listTargetsAction } from './targets.ts'

/** Who the event is of, where the target wants those of all agents. */
const testAgent = 'flotilla'
const publishTimeoutMs = 5_000

const sent = Type.Object(
  {
    target: Type.String(),
    sequence: Type.Integer(),
    event: Type.String(),
    idempotency_key: Type.String(),
  },
  { title: 'SentTestEvent' },
)
/** Throws AppError `not_found`, `conflict` for a target that is not in the file, `log_unavailable`. */
const testTargetAction = defineAction({
  name: 'webhooks test',
  summary: 'Send a test event to one target',
  args: Type.Object({ name: Type.String() }),
  change: { action: 'webhook.test', target: ({ name }) => name },
  async run({ platform, actor, requestId, describe }, { name: target }) {
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
    // Not loaded by commands, which have no use for it.
    const { prepareEvent } = await import('#services/webhooks/fire/events/event-body.ts')
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
      { byPlatform: true },
    )
    const deliveries = createDeliveries(platform.publisher, { partitionOf: async () => partition })
    const headers = requestId === undefined ? {} : { [headerNames.requestId]: requestId }
    const request = { event: prepared, receivedAtMs: Date.now(), headers }
    const [position] = await deliveries.publish(target, [request], publishTimeoutMs)
    const sequence = position!.offset
    describe({ after: { sequence, idempotency_key: prepared.idempotency_key } })
    return { target, sequence, event: prepared.event, idempotency_key: prepared.idempotency_key }
  },
  http: {
    role: 'member',
    problems: [...targetProblems, 'not_found', 'conflict'],
    method: 'POST',
    path: '/webhooks/targets/:name/test',
    operationId: 'testTarget',
    tag: 'webhooks',
    description:
      'An event that the target asks for, whose `result` says that it is a test. It is delivered like every other one, behind what waits.',
    fields: { name: targetInPath },
    answer: sent,
    status: 202,
  },
})

export const webhookActions: readonly Action[] = [
  listTargetsAction,
  ...Object.values(deliveryLetters),
  listAttemptsAction,
  testTargetAction,
  skipHeadAction,
  forgetTargetAction,
]
