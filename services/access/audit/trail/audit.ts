/**
 * The audit records of operations: the beginning is in the log before an operation is answered, the end follows, with others.
 * `withAudit` makes an operation of an ingress leave them.
 */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { Counter } from 'prom-client'
import type { AppendOptions } from '#engines/event-log/port.ts'
import { deadlines } from '#lib/deadlines.ts'
import { describeError, isUnavailable } from '#lib/errors.ts'
import { newEventId } from '#lib/ids.ts'
import { partitionOf } from '#lib/murmur2.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { sharedMetric } from '#runtime/observe/metrics.ts'
import { headerNames, type OutgoingMessage, type Publisher } from '#runtime/publish/messages.ts'
import type { ServiceContext } from '#runtime/start/service.ts'
import type { AuditEvent } from '#schemas/types.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { auditEvents } from '#topics/catalog.ts'
import { createRefusals } from './refusals.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The audit entry of this request, once it has begun. */
    audit: AuditEntry | null
  }
  interface FastifyContextConfig {
    /** Name of the operation in audit notes, and in the scope of Idempotency-Keys. */
    operation?: string
  }
}

const ownPartitionTimeoutMs = deadlines.request.auditMs
const otherPartitionTimeoutMs = deadlines.request.auditElsewhereMs
/** A partition that did not answer is passed over for this long. */
const avoidMs = 5_000

interface AuditedRequest {
  agentId: string
  operation: string
  collection: string | null
  requestId: string
  /** Further record headers: request id, traceparent. */
  headers: Record<string, string>
  /** The operation writes to the log itself by then: the beginning leaves with it. */
  patienceMs?: number
}

interface AuditEntry {
  /** Resolves when the beginning is in the log; rejects with AppError `log_unavailable` or `overloaded`. */
  acknowledged: Promise<void>
  /** Writes the end some tenths of a second later, without waiting. Only the first call counts. */
  end(outcome: string, statusCode: number, tookMs: number): void
}

export type AuditTrail = ReturnType<typeof createAuditTrail>

interface AuditTrailParts {
  publisher: Pick<Publisher, 'publish' | 'locationOf'>
  /** Called with how many records are given up, and why. */
  onLost(count: number, error: unknown): void
  now?(): number
}

/** With the metric `<name>_audit_lost_records_total` and a log line for what could not be written. */
export function openAuditTrail(
  { publisher, log, metrics }: Pick<ServiceContext<never, unknown>, 'publisher' | 'log' | 'metrics'>,
  name: string,
): AuditTrail {
  const help = 'Audit ends and summaries that could not be written'
  const lost = sharedMetric(
    metrics,
    `${name.replaceAll('-', '_')}_audit_lost_records_total`,
    (common) => new Counter({ ...common, help }),
  )
  return createAuditTrail({
    publisher,
    onLost(count, error) {
      lost.inc(count)
      log.warn({ reason: describeError(error) }, 'audit.lost')
    },
  })
}

export function createAuditTrail(parts: AuditTrailParts) {
  const now = parts.now ?? Date.now
  const publishBegun = createBegunPublisher(parts.publisher, now)
  const ends = createEnds({
    publish(messages, partition) {
      const to = partition === null ? {} : { partition }
      return parts.publisher.publish(auditEvents, messages, { patienceMs, ...to })
    },
    onLost: parts.onLost,
  })
  const refusals = createRefusals((event) => ends.add(null, messageOf(event, {})), now)

  return {
    begin(request: AuditedRequest): AuditEntry {
      const event = begunEvent(request, now())
      const headers = { ...request.headers, [headerNames.agent]: request.agentId }
      const begun = publishBegun(event, headers, request.patienceMs)
      const acknowledged = begun.then(() => undefined)
      // A caller that does not wait for it must not end the process.
      acknowledged.catch(() => undefined)
      let ended = false
      return {
        acknowledged,
        end(outcome, statusCode, tookMs) {
          if (ended) return
          ended = true
          const end: AuditEvent = {
            ...event,
            phase: 'ended',
            outcome,
            status_code: statusCode,
            took_ms: Math.round(tookMs * 1_000) / 1_000,
          }
          begun.then(
            (partition) => ends.add(partition, messageOf(end, headers)),
            // Without its beginning the request was answered 503: there is nothing to end.
            () => undefined,
          )
        },
      }
    },
    /** Counts a refused request; `agentId` null for callers that are no agent of the platform. One summary a minute counts them. */
    refused: refusals.count,
    async close(): Promise<void> {
      // Records ended just now reach the queue in this turn.
      await new Promise((resolve) => setImmediate(resolve))
      refusals.close()
      await ends.flush()
    },
  }
}

function begunEvent(request: AuditedRequest, occurredAt: number): AuditEvent {
  return {
    event_id: newEventId(),
    phase: 'begun',
    agent_id: request.agentId,
    operation: request.operation,
    collection: request.collection,
    outcome: 'unknown',
    status_code: null,
    took_ms: null,
    request_id: request.requestId,
    count: 1,
    occurred_at: occurredAt,
  }
}

function messageOf(event: AuditEvent, headers: Record<string, string>) {
  // Both records are the whole note under the same id, yet two events: consumers drop repeats by the record's event id.
  return { key: event.agent_id, value: event, eventId: `${event.event_id}-${event.phase}`, headers }
}

/** The agent's own partition first, so that its records keep their order; another one when that does not answer. */
function createBegunPublisher(publisher: AuditTrailParts['publisher'], now: () => number) {
  const avoidedUntil = new Map<number, number>()
  async function send(
    event: AuditEvent,
    headers: Record<string, string>,
    partition: number,
    options: AppendOptions,
  ): Promise<number> {
    try {
      await publisher.publish(auditEvents, [messageOf(event, headers)], { partition, ...options })
      if (avoidedUntil.size > 0) avoidedUntil.delete(partition)
      return partition
    } catch (error) {
      if (isUnavailable(error)) avoidedUntil.set(partition, now() + avoidMs)
      throw error
    }
  }
  function isAvoided(partition: number): boolean {
    return (avoidedUntil.get(partition) ?? 0) > now()
  }
  function anotherThan(own: number, partitions: number): number {
    const others = Array.from({ length: partitions }, (_, n) => n).filter((n) => n !== own)
    const good = others.filter((n) => !isAvoided(n))
    const from = good.length > 0 ? good : others
    return from[Math.floor(Math.random() * from.length)] ?? own
  }
  return async function publishBegun(
    event: AuditEvent,
    headers: Record<string, string>,
    patienceMs = 0,
  ): Promise<number> {
    const partitions = publisher.locationOf(auditEvents).partitions
    const own = partitionOf(Buffer.from(event.agent_id), partitions)
    if (!isAvoided(own)) {
      try {
        return await send(event, headers, own, { timeoutMs: ownPartitionTimeoutMs, patienceMs })
      } catch (error) {
        if (!isUnavailable(error)) throw error
      }
    }
    return send(event, headers, anotherThan(own, partitions), { timeoutMs: otherPartitionTimeoutMs })
  }
}

/**
 * An end waits this long for others to go with it: an append for each, and what reads it, would keep the log busy when
 * the beginning of the next request comes, for which a caller waits. A kill loses the ends of this time: their notes
 * read outcome `unknown`.
 */
const gatherMs = 200
/** After it an end waits this long for the beginning of a further request, which takes it along to the log. */
const patienceMs = 300
/** Ends that wait for the log at once; further ones are given up (their notes read outcome `unknown`). */
const waitingMax = 20_000

type EndMessage = OutgoingMessage<string, AuditEvent>

interface EndsParts {
  /** `partition` null: each goes to that of its key. */
  publish(messages: EndMessage[], partition: number | null): Promise<unknown>
  /** Called with how many ends are given up, and why. */
  onLost(count: number, error: unknown): void
}

export function createEnds(parts: EndsParts) {
  const gathered = new Map<number | null, EndMessage[]>()
  const open = new Set<Promise<unknown>>()
  let waiting = 0
  let timer: NodeJS.Timeout | undefined

  function send(partition: number | null, messages: EndMessage[]): void {
    const sent: Promise<unknown> = parts
      .publish(messages, partition)
      .catch((error) => parts.onLost(messages.length, error))
      .finally(() => {
        waiting -= messages.length
        open.delete(sent)
      })
    open.add(sent)
  }
  function sendAll(): void {
    clearTimeout(timer)
    timer = undefined
    for (const [partition, messages] of gathered) send(partition, messages)
    gathered.clear()
  }

  return {
    add(partition: number | null, message: EndMessage): void {
      if (waiting >= waitingMax) {
        parts.onLost(1, new Error('too many audit ends wait for the log'))
        return
      }
      waiting += 1
      const messages = gathered.get(partition)
      if (messages) messages.push(message)
      else gathered.set(partition, [message])
      timer ??= setTimeout(sendAll, gatherMs)
    },
    /** Resolves when every end that was added is written or given up. */
    async flush(): Promise<void> {
      sendAll()
      while (open.size > 0) await Promise.all(open)
    },
  }
}

/** What an operation is about; its agent is the caller where nothing else is said. */
interface AuditSubject extends Pick<AuditedRequest, 'patienceMs'> {
  agentId?: string
  collection?: string | null
}

/** Publishes the beginning while `work` runs; resolves with its result once both are done. */
export async function withAudit<T>(
  { audit: trail }: { audit: AuditTrail },
  request: FastifyRequest,
  reply: FastifyReply,
  subject: AuditSubject,
  work: () => Promise<T>,
): Promise<T> {
  const entry = beginAudit(trail, request, subject)
  const [result] = await Promise.all([work(), entry.acknowledged])
  entry.end('ok', reply.statusCode, reply.elapsedTime)
  return result
}

export function operationOf(request: FastifyRequest): string {
  return request.routeOptions.config.operation ?? 'unknown'
}

/** Begins the audit of the request. */
export function beginAudit(
  trail: AuditTrail,
  request: FastifyRequest,
  { agentId = callerOf(request).agentId, collection = null, ...more }: AuditSubject,
): AuditEntry {
  const operation = operationOf(request)
  const own = { agentId, collection, operation, requestId: request.id, headers: recordHeaders(request) }
  request.audit = trail.begin({ ...own, ...more })
  return request.audit
}
