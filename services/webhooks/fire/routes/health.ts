/** GET /health: which targets can be reached, and how far the delivery to each of them is. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Groups, Log } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import type { TopicLocation } from '#runtime/publish/messages.ts'
import type { createLastSeen } from '../../attempts/read-attempts.ts'
import type { Assignments } from '../../targets/assignment.ts'
import { readWaiting } from '../../targets/target-status.ts'
import type { WatchedTargets } from '../../targets/targets-file.ts'
import type { Probes } from '../probes.ts'

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

interface LagParts {
  eventLog: Log & Groups
  locations: ReadonlyMap<string, TopicLocation>
  assignments: Pick<Assignments, 'known'>
}

interface HealthParts extends LagParts {
  targets: Pick<WatchedTargets, 'current' | 'refused'>
  attempts: Pick<ReturnType<typeof createLastSeen>, 'last'>
  probes: Probes
}

export function registerHealth(app: FastifyInstance, parts: HealthParts): void {
  const readLag = createLag(parts)
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
      const names = [...parts.targets.current().targets.keys()]
      const lag = await readLag(names)
      const targets = Object.fromEntries(names.map((name) => [name, healthOf(parts, name, lag.of(name))]))
      const bad = Object.values(targets).some((one) => one.reachable === false || one.breaker === 'open')
      const warned = bad || parts.targets.refused() !== null
      return { status: lag.fresh ? (warned ? 'warn' : 'pass') : 'fail', targets }
    },
  )
}

function healthOf(
  { attempts, probes }: HealthParts,
  name: string,
  lag: number | null,
): Static<typeof target> {
  const seen = attempts.last(name)
  const probed = probes.last(name)
  const call = seen?.call ?? null
  const newest =
    call && (!probed || call.atMs >= probed.atMs)
      ? { reachable: call.answered, tookMs: call.tookMs, atMs: call.atMs }
      : probed
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

const keptForMs = 2_000

/** How many records wait for each target: read from the log on request and kept for two seconds. */
function createLag(parts: LagParts) {
  let last = { atMs: Number.NEGATIVE_INFINITY, byPartition: new Map<number, number>(), fresh: false }
  let asking: Promise<void> | undefined

  async function ask(targets: Iterable<string>): Promise<void> {
    const partitions = [...targets].flatMap((target) => parts.assignments.known(target) ?? [])
    try {
      const answer = readWaiting(parts, new Set(partitions))
      const { waiting } = await withTimeout(answer, deadlines.request.lagMs, () => new Error('no answer'))
      const byPartition = new Map([...waiting].map(([partition, { lag }]) => [partition, lag]))
      last = { atMs: performance.now(), byPartition, fresh: true }
    } catch {
      last = { ...last, atMs: performance.now(), fresh: false }
    } finally {
      asking = undefined
    }
  }
  /** Not `fresh` when the log did not answer: then `of` gives the previous numbers. Null where it is not known. */
  return async function readLag(targets: Iterable<string>) {
    if (performance.now() - last.atMs > keptForMs) {
      asking ??= ask(targets)
      await asking
    }
    const { byPartition, fresh } = last
    const of = (target: string) => byPartition.get(parts.assignments.known(target) ?? -1) ?? null
    return { fresh, of }
  }
}
