/** The status of every webhook target: what waits for it, its breaker, and its last attempt. */

import { Type } from 'typebox'
import {
  readTargetStatuses,
  type TargetHead,
  type TargetStatus,
} from '#services/webhooks/targets/target-status.ts'
import { defineAction, type Shown } from '../action.ts'
import type { OperationContext } from '../operation.ts'
import { time } from '../shapes.ts'
import { type ListedTarget, listedTarget, namedTargets, targetProblems } from './target-settings.ts'

type TargetState = ListedTarget['state']

export interface TargetsResult {
  targets: ListedTarget[]
  couriers: number
  /** The targets file; `readable` is false when it cannot be read here. */
  file: { path: string; readable: boolean }
  as_of: string
}

const targets = Type.Object(
  {
    targets: Type.Array(listedTarget),
    couriers: Type.Integer({ description: 'That are running.' }),
    as_of: time,
  },
  { title: 'WebhookTargets' },
)
export const listTargetsAction = defineAction({
  name: 'webhooks targets',
  summary: 'All webhook targets: what waits for them, since when, and how their last attempt ended',
  args: Type.Object({}),
  async run({ platform, signal }: OperationContext): Promise<TargetsResult> {
    const { eventLog, relational } = platform.engines
    const { locations, codec } = platform
    const { path, names } = namedTargets(platform.env)
    const { couriers, targets } = await readTargetStatuses(
      { eventLog, relational, locations, codec, signal },
      names ?? [],
    )
    return {
      targets: targets.map((one) => listed(one, names)),
      couriers,
      file: { path, readable: names !== null },
      as_of: new Date().toISOString(),
    }
  },
  http: {
    role: 'viewer',
    problems: targetProblems,
    method: 'GET',
    path: '/webhooks/targets',
    operationId: 'listTargets',
    tag: 'webhooks',
    answer: targets,
    // Where the file lies is no matter of callers.
    view: ({ file: _, ...listed }) => listed,
  },
  cli: [{ example: 'flotilla webhooks targets', render: shownTargets }],
})

function listed(status: TargetStatus, names: ReadonlySet<string> | null): ListedTarget {
  const { target, partition, lag, head, lastReport, last } = status
  // What the courier said while something waited is over once nothing does.
  const open = lag > 0 && lastReport?.breaker === 'open'
  const nextAt = lag > 0 ? (lastReport?.next_attempt_at ?? null) : null
  return {
    target,
    state: stateOf(status, names, open),
    partition,
    lag,
    head_sequence: head?.sequence ?? null,
    head_age_s: head && Math.max(0, Math.round((Date.now() - head.receivedAtMs) / 1_000)),
    head: head && headOf(head, last),
    breaker: open ? 'open' : 'closed',
    next_attempt_at: nextAt === null ? null : new Date(nextAt).toISOString(),
    last_status: last?.status ?? null,
    last_fault: last?.fault ?? null,
    last_sequence: last?.sequence ?? null,
    last_attempt: last?.attempt ?? null,
    last_at: last && new Date(last.occurred_at).toISOString(),
  }
}

function headOf(
  { sequence, event, agent, taskId, webhookId, receivedAtMs }: TargetHead,
  last: TargetStatus['last'],
): ListedTarget['head'] {
  return {
    sequence,
    event,
    agent,
    task_id: taskId,
    webhook_id: webhookId,
    received_at: new Date(receivedAtMs).toISOString(),
    attempts: last?.sequence === sequence ? (last.attempt ?? 0) : 0,
  }
}

function stateOf(
  { target, partition, lag, last, head }: TargetStatus,
  names: ReadonlySet<string> | null,
  open: boolean,
): TargetState {
  if (names !== null && !names.has(target)) return 'removed'
  if (partition === null) return 'new'
  if (lag === 0) return 'idle'
  if (open) return 'outage'
  return last?.kind === 'retry' && last.sequence === head?.sequence ? 'retrying' : 'delivering'
}

function shownTargets({ targets, couriers, file }: TargetsResult): Shown {
  const notes = [
    ...(file.readable
      ? []
      : [`${file.path} cannot be read here: targets without a partition are not listed`]),
    ...(couriers === 0 && targets.some(({ lag }) => lag > 0)
      ? ['no courier is running: nothing is delivered']
      : []),
  ]
  if (targets.length === 0) return [...notes, `no targets; they are listed in ${file.path}`]
  const head = [
    'target',
    'state',
    'queue',
    'head',
    'head age',
    'breaker',
    'next attempt',
    'last answer',
    'at',
  ]
  const rows = targets.map((one) => [
    one.target,
    // As the console and the docs call it; the API's value is older.
    one.state === 'outage' ? 'down' : one.state,
    one.lag,
    one.head_sequence,
    one.head_age_s === null ? null : age(one.head_age_s),
    one.breaker,
    one.next_attempt_at,
    one.last_status ?? one.last_fault,
    one.last_at,
  ])
  return [...notes, { head, rows }]
}

function age(totalS: number): string {
  if (totalS < 120) return `${totalS} s`
  return totalS < 7_200 ? `${Math.floor(totalS / 60)} min` : `${Math.floor(totalS / 3_600)} h`
}
