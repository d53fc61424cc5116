/** The newest delivery attempts of a webhook target, and of every target the last one. */

import { type Static, Type } from 'typebox'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { readMessage } from '#runtime/follow/follow-topic.ts'
import type { WebhookAttempt } from '#schemas/types.ts'
import {
  createLastSeen,
  followAttempts,
  type LastSeen,
  readAttempts,
} from '#services/webhooks/attempts/read-attempts.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { webhooksAttempts } from '#topics/catalog.ts'
import { defineAction } from '../action.ts'
import type { OperatedPlatform, OperationContext } from '../operation.ts'
import { orNull, time } from '../shapes.ts'
import { targetInPath, targetProblems } from './target-settings.ts'

const attemptsMax = 500
const attemptsShown = 50
/** Records read of a partition, which several targets may share. */
const lookedThroughMax = 10_000
/** Without the newest of before it goes on with what is reported from now on. */
const readBackMsMax = 10_000

export const attempt = Type.Object({
  target: Type.String(),
  kind: Type.String({
    description: '`success`, `retry`, `dead_letter`; `state` is a report without a call.',
  }),
  sequence: orNull(Type.Integer()),
  attempt: orNull(Type.Integer()),
  status: orNull(Type.Integer()),
  fault: orNull(Type.String()),
  took_ms: orNull(Type.Number()),
  breaker: Type.String(),
  next_attempt_at: orNull(time),
  occurred_at: time,
})
const attempts = Type.Object(
  { attempts: Type.Array(attempt, { description: 'The newest first.' }) },
  { title: 'WebhookAttempts' },
)
export type AttemptView = Static<typeof attempt>

export const listAttemptsAction = defineAction({
  name: 'webhooks attempts',
  summary: 'The newest attempts of a target, of the last 7 days',
  args: Type.Object({
    name: Type.String(),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: attemptsMax,
        description: `1 to ${attemptsMax}; by default ${attemptsShown}.`,
        examples: [20],
      }),
    ),
  }),
  /** The newest first. */
  async run(
    context: OperationContext,
    { name: target, limit = attemptsShown },
  ): Promise<{ attempts: AttemptView[] }> {
    const { relational } = context.platform.engines
    const found: AttemptView[] = []
    await visitAttempts(context, new Set([target]), (attempt) => {
      found.push(attempt)
      if (found.length > limit) found.shift()
    })
    if (found.length === 0 && !(await readAssignments(relational)).has(target)) {
      throw new AppError('not_found', `No webhook target ${target.slice(0, 64).toWellFormed()} is known.`)
    }
    return { attempts: found.reverse() }
  },
  http: {
    role: 'viewer',
    problems: [...targetProblems, 'not_found'],
    method: 'GET',
    path: '/webhooks/targets/:name/attempts',
    operationId: 'listAttempts',
    tag: 'webhooks',
    fields: { name: targetInPath },
    answer: attempts,
  },
})

/** Visits the newest attempts of these targets, those of each in their order. */
export function visitAttempts(
  { platform, signal }: Pick<OperationContext, 'platform' | 'signal'>,
  targets: ReadonlySet<string>,
  visit: (attempt: AttemptView) => void,
): Promise<void> {
  const { engines, publisher } = platform
  const decode = async (record: StoredRecord) =>
    (await readMessage(platform, webhooksAttempts, record, signal)).message?.value
  const place = publisher.locationOf(webhooksAttempts)
  return readAttempts(
    { eventLog: engines.eventLog, place, decode, lookedThroughMax, signal },
    targets,
    (attempt) => visit(viewOf(attempt)),
  )
}

function viewOf(attempt: WebhookAttempt): AttemptView {
  const { target, kind, sequence, attempt: n, status, fault, took_ms, breaker } = attempt
  const next = attempt.next_attempt_at
  return {
    target,
    kind,
    sequence,
    attempt: n,
    status,
    fault,
    took_ms,
    breaker,
    next_attempt_at: next === null ? null : new Date(next).toISOString(),
    occurred_at: new Date(attempt.occurred_at).toISOString(),
  }
}

export interface LastAttempts extends Closeable {
  /** What was reported of the target last; null before anything. */
  of(target: string): LastSeen | null
  /** The last hour of each target; where very many were reported, only since this was opened. */
  bars: ReturnType<typeof createAttemptBars>['all']
}

/** Follows the attempts of all couriers; what it knows when this resolves includes the newest of before. */
export async function openLastAttempts(
  platform: Pick<OperatedPlatform, 'engines' | 'publisher' | 'codec' | 'log'>,
): Promise<LastAttempts> {
  const seen = createLastSeen()
  const bars = createAttemptBars()
  const following = await followAttempts({ ...platform, ...platform.engines }, (attempt) => {
    bars.take(attempt)
    seen.take(attempt)
  })
  await withTimeout(
    following.ready,
    readBackMsMax,
    () => new Error('the newest could not be read in time'),
  ).catch((error: unknown) => {
    platform.log.warn({ reason: describeError(error) }, 'webhooks.attempts-unread')
  })
  return { of: seen.last, bars: bars.all, close: following.close }
}

const barMinutes = 60
const minuteMs = 60_000
/** As many as a targets file may name. */
const targetsMax = 1_000

/** How many attempts ended in which way; the oldest minute first, the last one is the present. */
interface AttemptBars {
  delivered: number[]
  retried: number[]
  dead_letters: number[]
}

const kinds = { success: 'delivered', retry: 'retried', dead_letter: 'dead_letters' } as const

export function createAttemptBars(now: () => number = Date.now) {
  /** A ring of minutes for each target; `minute` says which one a place holds. */
  const rings = new Map<string, { minute: Float64Array; bars: AttemptBars }>()
  const none = () => new Array<number>(barMinutes).fill(0)

  function ringOf(target: string) {
    const known = rings.get(target)
    if (known || rings.size >= targetsMax) return known
    const bars = { delivered: none(), retried: none(), dead_letters: none() }
    const ring = { minute: new Float64Array(barMinutes), bars }
    rings.set(target, ring)
    return ring
  }
  return {
    take({ target, kind, occurred_at }: Pick<WebhookAttempt, 'target' | 'kind' | 'occurred_at'>): void {
      const name = kinds[kind as keyof typeof kinds]
      const minute = Math.floor(occurred_at / minuteMs)
      const isOld = minute <= Math.floor(now() / minuteMs) - barMinutes
      const ring = name === undefined || isOld ? undefined : ringOf(target)
      if (!ring) return
      const place = minute % barMinutes
      // A later minute has the place already.
      if (ring.minute[place]! > minute) return
      if (ring.minute[place] !== minute) {
        ring.minute[place] = minute
        for (const counts of Object.values(ring.bars)) counts[place] = 0
      }
      ring.bars[name!][place]! += 1
    },
    all(): ({ target: string } & AttemptBars)[] {
      const present = Math.floor(now() / minuteMs)
      return [...rings].map(([target, { minute, bars }]) => {
        const inOrder = (counts: readonly number[]) =>
          Array.from({ length: barMinutes }, (_, at) => {
            const wanted = present - barMinutes + 1 + at
            const place = wanted % barMinutes
            return minute[place] === wanted ? counts[place]! : 0
          })
        return {
          target,
          delivered: inOrder(bars.delivered),
          retried: inOrder(bars.retried),
          dead_letters: inOrder(bars.dead_letters),
        }
      })
    },
  }
}
