/** The status of every webhook target: what waits for it, its breaker, and its last attempt. */

import { Type } from 'typebox'
import {
  readTargetStatuses,
  type TargetHead,
  type TargetStatus,
} from '#services/webhooks/targets/target-status.ts'
import { defineOperation } from '../operation.ts'
import { namedTargets } from './named-targets.ts'

type TargetState = 'idle' | 'delivering' | 'retrying' | 'outage' | 'removed' | 'new'

export interface ListedHead {
  sequence: number
  event: string
  agent: string
  task_id: string
  webhook_id: string
  received_at: string
  /** So far, as far as they were reported. */
  attempts: number
}

export interface ListedTarget {
  target: string
  state: TargetState
  partition: number | null
  lag: number
  head_sequence: number | null
  head_age_s: number | null
  /** The delivery that is being tried; those behind it wait for it. */
  head: ListedHead | null
  breaker: string
  next_attempt_at: string | null
  last_status: number | null
  last_fault: string | null
  last_sequence: number | null
  last_attempt: number | null
  last_at: string | null
}

export interface TargetsResult {
  targets: ListedTarget[]
  couriers: number
  /** The targets file; `readable` is false when it cannot be read here. */
  file: { path: string; readable: boolean }
  as_of: string
}

export const listTargetsOperation = defineOperation({
  name: 'webhooks targets',
  needs: [],
  args: Type.Object({}),
  async run({ platform, signal }): Promise<TargetsResult> {
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
): ListedHead {
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
