/** GET /health: which targets can be reached, and how far the delivery to each of them is. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { shownAs } from '#runtime/http/api/facts.ts'
import type { Relay } from '../relay.ts'
import type { LagReading } from '../targets/lag.ts'

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description })

const target = Type.Object(
  {
    reachable: nullable(
      Type.Boolean(),
      'By the newest of a probe (name resolution, connection, TLS; never a request) and a delivery; null before both.',
    ),
    last_status: nullable(Type.Integer(), 'HTTP status of the last call; null without an answer or a call.'),
    latency_ms: nullable(Type.Number(), 'Of that newest probe or call.'),
    lag: nullable(
      Type.Integer(),
      'Events accepted and neither delivered nor parked; null while it is not known.',
    ),
    breaker: Type.String(
      shownAs(
        Type.Enum(['closed', 'open'], {
          type: 'string',
          description: 'open while the target is considered away.',
        }),
      ),
    ),
    head_age_s: nullable(Type.Number(), 'How long the event at the head has been waiting.'),
    next_attempt_at: nullable(Type.String(), 'ISO 8601; when the event at the head is tried again.'),
    checked_at: nullable(Type.String(), 'ISO 8601; when the target was last probed or called.'),
  },
  { title: 'TargetHealth' },
)

const answer = Type.Object(
  {
    status: Type.Enum(['pass', 'warn', 'fail'], { type: 'string' }),
    targets: Type.Record(Type.String(), target),
  },
  {
    title: 'RelayHealth',
    description:
      'pass; warn when some target cannot be reached, has its breaker open, or a changed targets file was refused; fail ' +
      'when the event log does not answer. Always 200: a target that is down is no reason to restart the relay.',
  },
)

export function registerHealth(app: FastifyInstance, relay: Relay): void {
  app.withTypeProvider<TypeBoxTypeProvider>().get(
    '/health',
    {
      config: { problems: [] },
      schema: {
        operationId: 'getRelayHealth',
        tags: ['platform'],
        summary: 'Connectivity of the targets, from probes and deliveries',
        response: { 200: answer },
      },
    },
    async (): Promise<Static<typeof answer>> => {
      const names = [...relay.targets.current().targets.keys()]
      const lag = await relay.lag.read(names)
      const targets = Object.fromEntries(names.map((name) => [name, healthOf(relay, name, lag)]))
      const bad = Object.values(targets).some((one) => one.reachable === false || one.breaker === 'open')
      const warned = bad || relay.targets.refused() !== null
      return { status: lag.fresh ? (warned ? 'warn' : 'pass') : 'fail', targets }
    },
  )
}

function healthOf(
  { attempts, probes }: Pick<Relay, 'attempts' | 'probes'>,
  name: string,
  lags: LagReading,
): Static<typeof target> {
  const seen = attempts.last(name)
  const probed = probes.last(name)
  const call = seen?.call ?? null
  const newest =
    call && (!probed || call.atMs >= probed.atMs)
      ? { reachable: call.answered, tookMs: call.tookMs, atMs: call.atMs }
      : probed
  const lag = lags.of(name)
  // The backlog of the courier's last report has been delivered since.
  const head = lag === 0 ? null : (seen?.head ?? null)
  return {
    reachable: newest?.reachable ?? null,
    last_status: seen?.status ?? null,
    latency_ms: newest ? Math.round(newest.tookMs * 100) / 100 : null,
    lag,
    breaker: seen?.breaker ?? 'closed',
    head_age_s: secondsSince(head?.receivedAtMs ?? null),
    next_attempt_at: isoOf(head?.nextAttemptAtMs ?? null),
    checked_at: isoOf(newest?.atMs ?? null),
  }
}

function secondsSince(ms: number | null): number | null {
  return ms === null ? null : Math.max(0, Math.round((Date.now() - ms) / 100) / 10)
}

function isoOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
