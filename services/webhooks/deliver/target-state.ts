/** What a courier knows of one target: its breaker, its waiting heads, its connections and how many calls it may make. */

import { SpanKind } from '@opentelemetry/api'
import { endSpan, type Tracing, traceparentOf } from '#runtime/observe/tracing/tracing.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import type { WebhookTarget, WebhookTargets } from '../targets/targets-file.ts'
import { Connection, type ConnectionOptions, type Request } from './connection.ts'
import { type HeaderBase, headerBaseOf } from './request-headers.ts'
import { type CallResult, verdictOf } from './verdict.ts'

export class TargetState {
  target: WebhookTarget
  headers: HeaderBase
  readonly partition: number
  /** By offset. */
  readonly #heads = new Map<number, Head>()
  /** Operators were warned of the redirects of this address. */
  redirectReported = false
  #connections: Connection[] = []
  readonly #lookup: ConnectionOptions['lookup']
  #callsMax = callsPerTargetMax
  #inFlight = 0
  /** Heads had to wait for others, and want to be asked again. */
  #turnedAway = false
  /** The outage that goes on: tries so far, and the head that tries. */
  #outage: { tries: number; prober: number | null; nextAtMs: number } | null = null

  constructor(target: WebhookTarget, partition: number, lookup: ConnectionOptions['lookup']) {
    this.target = target
    this.headers = headerBaseOf(target)
    this.partition = partition
    this.#lookup = lookup
  }

  get breaker(): 'closed' | 'open' {
    return this.#outage === null ? 'closed' : 'open'
  }

  /** The oldest head, by its place in the log. */
  get firstHead(): Head | null {
    let first: Head | null = null
    for (const head of this.#heads.values()) if (first === null || head.offset < first.offset) first = head
    return first
  }

  /** When something is tried next, ms since 1970; null while a call runs or nothing waits. */
  get nextAttemptAtMs(): number | null {
    if (this.#inFlight > 0 || this.#heads.size === 0) return null
    if (this.#outage) return wallTimeOf(this.#outage.nextAtMs)
    return wallTimeOf(Math.min(...[...this.#heads.values()].map(({ dueAtMs }) => dueAtMs)))
  }

  headOf(offset: number, delivery: WebhookDelivery, attempts: number): Head {
    let head = this.#heads.get(offset)
    if (!head) {
      const sequence = delivery.sequence ?? offset
      head = { offset, sequence, receivedAtMs: delivery.received_at, attempts, dueAtMs: 0 }
      this.#heads.set(offset, head)
    }
    return head
  }

  /** Its entry in the file: queued calls take a new address, running ones end with the old one. */
  renew(target: WebhookTarget): void {
    // Another target's change changes nothing here.
    const same = JSON.stringify(target) === JSON.stringify(this.target)
    this.target = target
    if (same) return
    this.headers = headerBaseOf(target)
    this.redirectReported = false
    this.close()
    this.hasten()
  }

  /** Deliveries that wait for a time may be tried now. */
  hasten(): void {
    for (const head of this.#heads.values()) head.dueAtMs = 0
    if (this.#outage) this.#outage.nextAtMs = 0
  }

  /** How long this head has to wait before it may be tried, ms; 0: now. Infinite: until others make room. By `performance.now()`. */
  waitMs(head: Head, nowMs: number): number {
    if (head.dueAtMs > nowMs) return head.dueAtMs - nowMs
    const outage = this.#outage
    if (outage && outage.prober !== null && outage.prober !== head.offset) return this.#turnAway()
    if (outage && outage.nextAtMs > nowMs) return outage.nextAtMs - nowMs
    if (this.#inFlight >= this.#callsMax) return this.#turnAway()
    if (outage) outage.prober = head.offset
    return 0
  }

  /** True once when heads were turned away and one of them may be tried now. */
  roomForOthers(): boolean {
    if (!this.#turnedAway || this.#inFlight >= this.#callsMax) return false
    if (this.#outage && this.#outage.prober !== null) return false
    this.#turnedAway = false
    return true
  }

  /** Never rejects. `callEnded` belongs behind its end. */
  call(request: Request): Promise<CallResult> {
    this.#inFlight++
    return this.#idleConnection().send(request)
  }

  callEnded(): void {
    this.#inFlight--
  }

  /** The target answered: one more call may run at a time. True when that ended an outage. */
  answered(): boolean {
    const ended = this.#outage !== null
    this.#outage = null
    this.#callsMax = Math.min(callsPerTargetMax, this.#callsMax + 1)
    return ended
  }

  /** The target is away: only this head is tried. Returns the number of tries of this outage, from 1. */
  away(head: Head): number {
    this.#outage ??= { tries: 0, prober: head.offset, nextAtMs: 0 }
    const outage = this.#outage
    // A call that was in flight when the outage began is not another try of it.
    if (outage.prober !== null && outage.prober !== head.offset) return Math.max(1, outage.tries)
    outage.prober = head.offset
    this.#callsMax = 1
    return ++outage.tries
  }

  /** When the head that is tried is due again, by `performance.now()`. */
  nextTryAt({ offset }: Head, atMs: number): void {
    if (this.#outage?.prober === offset) this.#outage.nextAtMs = atMs
  }

  /** A head is settled or gone: another one takes over what it was trying. */
  leave(offset: number): void {
    this.#heads.delete(offset)
    if (this.#outage?.prober === offset) this.#outage.prober = null
  }

  /** Ends the calls that run. */
  stop(): void {
    for (const connection of this.#connections) connection.stop()
  }

  close(): void {
    for (const connection of this.#connections.splice(0)) connection.close()
  }

  #turnAway(): number {
    this.#turnedAway = true
    return Number.POSITIVE_INFINITY
  }

  #idleConnection(): Connection {
    const idle = this.#connections.find((connection) => !connection.busy)
    if (idle) return idle
    const made = new Connection({ url: this.target.url, lookup: this.#lookup })
    this.#connections.push(made)
    return made
  }
}

/** A time of `performance.now()` in ms since 1970, as this process sees both clocks now. */
export function wallTimeOf(steadyMs: number): number {
  return Math.round(Date.now() + steadyMs - performance.now())
}

/** Host and port alone are written down: path and query of a target may be secrets. */
export async function callInSpan(
  tracing: Tracing,
  state: Pick<TargetState, 'target' | 'call'>,
  request: Request,
  attempt: number,
): Promise<CallResult> {
  const { name, url } = state.target
  const span = tracing.beginChild('POST', {
    kind: SpanKind.CLIENT,
    attributes: {
      'http.request.method': 'POST',
      'http.request.resend_count': attempt - 1,
      'server.address': url.hostname,
      'server.port': Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
      'flotilla.target': name,
    },
  })
  const traceparent = traceparentOf(span)
  // A target may have a header of that name of its own.
  const isOwn = request.headers.some((one, n) => n % 2 === 0 && one.toLowerCase() === 'traceparent')
  const traced = isOwn || traceparent === undefined ? [] : ['traceparent', traceparent]
  const result = await state.call({ ...request, headers: [...request.headers, ...traced] })
  const { status, fault } = result
  if (status !== null) span.setAttribute('http.response.status_code', status)
  endSpan(span, verdictOf(result) === 'delivered' ? undefined : (fault ?? String(status)))
  return result
}

/** A record that is the first of its lane and not settled. */
export interface Head {
  offset: number
  sequence: number
  receivedAtMs: number
  /** Calls made for it. */
  attempts: number
  /** No call for it starts before; of `performance.now()`, which no clock that is set steps back. */
  dueAtMs: number
}

/** Calls in flight to a target with `ordering: agent`; with `ordering: target` there is one. */
export const callsPerTargetMax = 8

/** Targets that no file names although records wait for them: how long these records still wait. */
export class UnknownTargets {
  readonly #waitMs: number
  readonly #since = new Map<string, { atMs: number; partition: number }>()

  constructor(waitMs: number) {
    this.#waitMs = waitMs
  }

  /**
   * Milliseconds that are left to a record that was appended at `appendedMs`; `first` when nobody asked before. No record
   * waits shorter than the others did: the relay may know a target a moment sooner.
   */
  left(target: string, partition: number, appendedMs: number): { leftMs: number; first: boolean } {
    const nowMs = Date.now()
    const known = this.#since.get(target)
    if (!known) this.#since.set(target, { atMs: nowMs, partition })
    const sinceMs = Math.max(known?.atMs ?? nowMs, Math.min(appendedMs, nowMs))
    return { leftMs: sinceMs + this.#waitMs - nowMs, first: !known }
  }

  names(): string[] {
    return [...this.#since.keys()]
  }

  /** Where records of these wait. */
  partitionsOf(names: readonly string[]): number[] {
    return names.flatMap((name) => this.#since.get(name)?.partition ?? [])
  }

  /** Forgets those that are named now; returns the partitions where records wait. */
  renew({ targets }: WebhookTargets): number[] {
    const partitions = this.partitionsOf(this.names())
    for (const target of this.#since.keys()) if (targets.has(target)) this.#since.delete(target)
    return partitions
  }
}
