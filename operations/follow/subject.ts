/**
 * What an id that somebody pastes names: a request, an operation of the vector gateway, a run, a dispatch, a webhook
 * delivery or an event; and by what its records are known in the log.
 */

import { decodeTime } from 'ulid'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { AppError } from '#lib/errors.ts'
import { readOne } from '#runtime/follow/read-records.ts'
import { headerNames } from '#runtime/publish/messages.ts'
import { openSecrets } from '#services/access/secrets/secrets.ts'
import { readDispatch } from '#services/runs/state/dispatches.ts'
import { listRuns, readRun } from '#services/runs/state/read.ts'
import type { Dispatch, Run } from '#services/runs/state/types.ts'
import {
  createOperationIds,
  loadOperationSecret,
  type Operation,
} from '#services/vectors/read/operations/operations.ts'
import { operationHeader } from '#services/vectors/write/failures.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { vectorsCommands, webhooksDeliveries } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import type { OperatedPlatform } from '../operation.ts'

export type SubjectKind = 'request' | 'operation' | 'run' | 'dispatch' | 'delivery' | 'event'

/** A delivery as its receiver sees it: X-Sequence is for each target. */
export interface DeliveryName {
  target: string
  sequence: number
}

export interface Subject {
  kind: SubjectKind
  /** X-Request-Id of the call that began it; null: not known. */
  requestId: string | null
  /** When that was, in ms since 1970; null: not known. */
  aroundMs: number | null
  /** The number that the records of an operation bear. */
  operation: string | null
  /** A run with all that joined it, or all runs of a dispatch; the oldest first. */
  runs: Run[]
  dispatch: Dispatch | null
  delivery: DeliveryName | null
}

const runPattern = /^run_[0-9a-f]{32}$/
const dispatchPattern = /^(?:goal\/)?([1-9]\d{0,14})$/
const deliveryPattern = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})\/(\d{1,15})$/
const uuid = /^([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const ulid = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const runsMax = 100
const readTimeoutMs = 5_000

/** What is known of the id before the log is searched. An id that names nothing is a request of which nothing is known. */
export async function subjectOf(platform: OperatedPlatform, id: string): Promise<Subject> {
  return (
    (await runNamed(platform, id)) ??
    (await dispatchNamed(platform, id)) ??
    (await deliveryNamed(platform, id)) ??
    (await operationNamed(platform, id)) ??
    unknown({ requestId: id, aroundMs: timeIn(id) })
  )
}

function unknown(known: Partial<Subject>): Subject {
  const nothing = {
    requestId: null,
    aroundMs: null,
    operation: null,
    runs: [],
    dispatch: null,
    delivery: null,
  }
  return { kind: 'request', ...nothing, ...known }
}

async function runNamed({ engines }: OperatedPlatform, id: string): Promise<Subject | null> {
  const run = runPattern.test(id) ? await readRun(engines.relational, id) : null
  if (!run) return null
  const { runs } = await listRuns(engines.relational, {
    own: null,
    rootRunId: run.rootRunId,
    limit: runsMax,
  })
  return unknown({
    kind: 'run',
    requestId: run.requestId,
    aroundMs: run.createdAt.getTime(),
    runs: runs.reverse(),
  })
}

async function dispatchNamed({ engines }: OperatedPlatform, id: string): Promise<Subject | null> {
  const [, digits] = dispatchPattern.exec(id) ?? []
  const goalId = Number(digits)
  const dispatch = digits === undefined ? null : await readDispatch(engines.relational, goalId)
  if (!dispatch) return null
  const { runs } = await listRuns(engines.relational, { own: null, goalId, limit: runsMax })
  return unknown({
    kind: 'dispatch',
    requestId: dispatch.runs[0]?.requestId ?? null,
    aroundMs: dispatch.createdAt.getTime(),
    runs: runs.reverse(),
    dispatch,
  })
}

/** A sequence is the offset that the delivery had first. */
async function deliveryNamed(platform: OperatedPlatform, id: string): Promise<Subject | null> {
  const [, target = '', digits] = deliveryPattern.exec(id) ?? []
  const partition = digits && (await readAssignments(platform.engines.relational)).get(target)
  if (typeof partition !== 'number') return null
  const sequence = Number(digits)
  const record = await recordAt(platform, webhooksDeliveries, partition, sequence)
  const own = record?.key?.toString('utf8') === target ? record : null
  return unknown({ kind: 'delivery', ...callOf(own), delivery: { target, sequence } })
}

async function operationNamed(platform: OperatedPlatform, id: string): Promise<Subject | null> {
  // An operation id is longer, and no id of this form is signed.
  if (uuid.test(id) || !/^[A-Za-z0-9_-]{28,16000}$/.test(id)) return null
  const operation = await decoded(platform, id)
  const { epoch } = platform.publisher.locationOf(vectorsCommands)
  if (!operation || operation.epoch !== epoch) return null
  let found: StoredRecord | null = null
  for (const { partition, offset } of operation.last) {
    const record = await recordAt(platform, vectorsCommands, partition, offset)
    if (record?.headers[operationHeader] === operation.number) found = record
    if (found) break
  }
  return unknown({ kind: 'operation', ...callOf(found), operation: operation.number })
}

async function decoded({ engines, env }: OperatedPlatform, id: string): Promise<Operation | null> {
  const secret = await loadOperationSecret(await openSecrets(engines.relational, env))
  try {
    return createOperationIds(secret).decode(id)
  } catch (error) {
    if (error instanceof AppError && error.code === 'invalid_operation_id') return null
    throw error
  }
}

function callOf(record: StoredRecord | null): Pick<Subject, 'requestId' | 'aroundMs'> {
  return { requestId: record?.headers[headerNames.requestId] ?? null, aroundMs: record?.timestamp ?? null }
}

/** Null where the log holds it no longer. */
function recordAt(
  { engines: { eventLog }, publisher }: OperatedPlatform,
  topic: Topic,
  partition: number,
  offset: number,
): Promise<StoredRecord | null> {
  const { physicalName } = publisher.locationOf(topic)
  return readOne(eventLog, { topic: physicalName, partition, offset, timeoutMs: readTimeoutMs })
}

/** Ids that the platform makes hold their time: UUIDs of version 7, and the ULIDs of webhooks. */
export function timeIn(id: string): number | null {
  const [, high = '', low = '', version] = uuid.exec(id) ?? []
  if (version === '7') return Number.parseInt(high + low, 16)
  return ulid.test(id) ? decodeTime(id) : null
}
