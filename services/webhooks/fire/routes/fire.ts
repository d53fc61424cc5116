/** POST /api/v1/webhooks/fire: accepts an event, chooses its targets and answers when every delivery is in the log. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { createValidator } from '#runtime/http/validation.ts'
import { eventSchema } from '../../event.ts'
import type { WatchedTargets } from '../../targets/targets-file.ts'
import { chooseTargets, type Deliveries, namesOf } from '../events/deliveries.ts'
import { type PreparedEvent, prepareEvent, refuseSecrets } from '../events/event-body.ts'

const bodyBytesMax = 256 * 1024
const publishTimeoutMs = deadlines.request.fireMs
const answerTimeoutMs = deadlines.request.fireAnswerMs

const query = Type.Object(
  {
    targets: Type.Optional(
      Type.Union(
        [Type.String(), Type.Array(Type.String())],
        shownAs(
          Type.Array(Type.String(), {
            description:
              'Names of targets, repeated (`targets=audit&targets=deploy`) or comma-separated: only these get the event, and ' +
              'of these only those whose own `events` and `agents` lists match. An unknown name refuses all of it; an empty ' +
              'one is a fault. Without it: every target whose lists match.',
          }),
        ),
      ),
    ),
  },
  { additionalProperties: false },
)

const answer = Type.Object(
  {
    idempotency_key: Type.String({ description: 'Sent to every target as X-Idempotency-Key.' }),
    deliveries: Type.Array(
      Type.Object(
        {
          target: Type.String(),
          sequence: Type.Integer({
            description:
              'Rises for each target, not by one; sent as X-Sequence (which may be smaller where the log had to be written twice).',
          }),
        },
        { additionalProperties: false, title: 'Delivery' },
      ),
      { description: 'In the order of the targets file; empty when no target wants the event.' },
    ),
  },
  {
    additionalProperties: false,
    title: 'FiredEvent',
    description: 'Every delivery is in the log and survives any crash. Delivered it is later.',
    examples: [
      {
        idempotency_key: 'WHALE-01K5Z6M0V3T4E8Q2Y7C9D1F2G3-task.completed',
        deliveries: [{ target: 'audit', sequence: 41 }],
      },
    ],
  },
)

interface FireParts {
  targets: Pick<WatchedTargets, 'current'>
  deliveries: Deliveries
}

/** The scope must be this route's own: it keeps the bytes of its bodies. */
export function registerFire(scope: FastifyInstance, relay: FireParts): void {
  scope.removeContentTypeParser('application/json')
  scope.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body: Buffer, done) => {
    try {
      done(null, prepareEvent(body))
    } catch (error) {
      done(error as Error)
    }
  })
  // The body is what the parser above made of it, not what the schema describes.
  scope.post<{ Body: PreparedEvent; Querystring: Static<typeof query> }>(
    '/fire',
    {
      bodyLimit: bodyBytesMax,
      // The parser has checked the body already.
      validatorCompiler: (route) => (route.httpPart === 'body' ? () => true : createValidator(route)),
      config: {
        problems: ['unknown_target', 'secret_in_payload', 'log_unavailable', 'relational_engine_unavailable'],
      },
      schema: {
        operationId: 'fireEvent',
        tags: ['webhooks'],
        summary: 'Fire an event',
        description:
          'Accepted means stored for every target, not delivered. The relay does not deduplicate: each accepted request is ' +
          'a delivery with a sequence of its own. After a 503 nothing is known of the single deliveries: send the event ' +
          'again; receivers know a repeat by its idempotency key.',
        body: eventSchema,
        querystring: query,
        response: { 202: answer },
      },
    },
    async (request, reply) => {
      reply.code(202)
      return fire(relay, request, request.body, namesOf(request.query.targets))
    },
  )
}

async function fire(relay: FireParts, request: FastifyRequest, event: PreparedEvent, named: string[] | null) {
  const now = relay.targets.current()
  const chosen = chooseTargets(now, event, named)
  refuseSecrets(event, now.secrets)
  // From here on it may appear in log lines.
  request.agentId = event.agent
  const delivery = { event, receivedAtMs: Date.now(), headers: recordHeaders(request) }
  const publish = async ({ name }: { name: string }) => {
    const [position] = await relay.deliveries.publish(name, [delivery], publishTimeoutMs)
    return { target: name, sequence: position!.offset }
  }
  // Finding a partition and writing to it share the time.
  const deliveries = await withTimeout(
    Promise.all(chosen.map(publish)),
    answerTimeoutMs,
    () => new AppError('log_unavailable', 'The event log does not answer.', { retryAfter: 1 }),
  )
  return { idempotency_key: event.idempotency_key, deliveries }
}
