/**
 * Delivers one record of webhooks.deliveries to its target and decides what happens to it then. Retries wait in their
 * lane; a target that is away opens its breaker: none of its events is given up, and only one head is tried.
 */

import type { LookupFunction } from 'node:net'
import type { Logger } from 'pino'
import { done, type Hold, keepTrying, type LaneOutcome, type Outcome, park, postpone } from '#lib/outcome.ts'
import type { CallContext, LaneWakeups } from '#runtime/consume/consumer.ts'
import { noTracing, type Tracing } from '#runtime/observe/tracing/tracing.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { WebhookDelivery } from '#schemas/types.ts'
import { redact } from '#services/access/secrets/redact.ts'
import { type Attempts, reportAttempt, stateRecord } from '../attempts/attempts.ts'
import type { WebhookTarget, WebhookTargets } from '../targets/targets-file.ts'
import { Lanes, type Skips } from './lanes.ts'
import type { LoadWatch } from './load-watch.ts'
import { requestHeaders } from './request-headers.ts'
import { callInSpan, type Head, TargetState, UnknownTargets } from './target-state.ts'
import {
  type CallResult,
  codeOf,
  decide,
  outageWaitMs,
  retryWaitMs,
  type Verdict,
  verdictOf,
} from './verdict.ts'

type Delivery = Message<WebhookDelivery>

/** A delivery that is being handled. */
interface Work {
  state: TargetState
  head: Head
  message: Delivery
  delivery: WebhookDelivery
  context: CallContext
}

interface CourierParts {
  targets(): WebhookTargets
  /** Records of targets that no file names wait this long for one that does. */
  unknownMs: number
  names: { lookup: LookupFunction; forget(hostname: string): void }
  attempts: Attempts
  skips: Skips
  load: LoadWatch
  log: Logger
  tracing?: Tracing | undefined
  /** Has the waiting heads of a partition tried again, soon. */
  wakeups: Pick<LaneWakeups, 'wake'>
}

/** Longest time that a head waits without being tried again, whatever it waits for. */
const headWaitMsMax = 60_000

export class Courier {
  readonly lanes: Lanes
  readonly #parts: CourierParts
  /** By partition and name. */
  readonly #states = new Map<string, TargetState>()
  readonly #unknown: UnknownTargets

  constructor(parts: CourierParts) {
    this.#parts = parts
    this.lanes = new Lanes(parts.targets)
    this.#unknown = new UnknownTargets(parts.unknownMs)
  }

  async handle(message: Delivery, context: CallContext): Promise<LaneOutcome> {
    const work = this.#begin(message, context)
    if ('kind' in work) return work
    const result = await this.#call(work)
    work.state.callEnded()
    work.head.attempts = context.attempt
    const outcome = this.#conclude(work, result)
    if (work.state.roomForOthers()) this.#parts.wakeups.wake(message.partition)
    return outcome
  }

  /** A record that was settled before this process had its partition. */
  settledBefore(message: Delivery): void {
    if (message.value === null) return
    this.#parts.load.came(message.value.target, message.timestamp)
    this.lanes.settled(message.value, message)
  }

  /** Partitions that were gained: another member may have delivered meanwhile. */
  gained(partitions: readonly number[]): void {
    this.lanes.forget(partitions)
    this.keep(({ partition }) => !partitions.includes(partition))
  }

  /** Closes and forgets the other states. */
  keep(wanted: (state: TargetState) => boolean): void {
    for (const [key, state] of this.#states) {
      if (wanted(state)) continue
      state.close()
      this.#states.delete(key)
    }
  }

  /** The targets file changed. */
  renew(targets: WebhookTargets): void {
    const partitions = new Set(this.#unknown.renew(targets))
    for (const state of this.states()) {
      partitions.add(state.partition)
      const target = targets.targets.get(state.target.name)
      if (target) state.renew(target)
    }
    // Records of removed targets find none, and wait.
    this.keep((state) => targets.targets.has(state.target.name))
    for (const partition of partitions) this.#parts.wakeups.wake(partition)
  }

  /** Targets for which a head waits: an operator may have given it up. */
  waiting(): string[] {
    const stuck = this.states().filter(
      ({ firstHead, breaker }) => firstHead !== null && (firstHead.attempts > 0 || breaker === 'open'),
    )
    return [...stuck.map((state) => state.target.name), ...this.#unknown.names()]
  }

  states(): TargetState[] {
    return [...this.#states.values()]
  }

  /** An operator gave up some records of these targets. */
  skipped(names: readonly string[]): void {
    for (const partition of this.#unknown.partitionsOf(names)) this.#parts.wakeups.wake(partition)
    for (const state of this.states()) {
      if (!names.includes(state.target.name)) continue
      state.hasten()
      this.#parts.wakeups.wake(state.partition)
    }
  }

  /** Ends the calls that run. */
  stop(): void {
    for (const state of this.states()) state.stop()
  }

  close(): void {
    for (const state of this.states()) state.close()
  }

  /** The work of a call, or the outcome of a record for which no call is made now. */
  #begin(message: Delivery, context: CallContext): Work | LaneOutcome {
    const delivery = message.value
    if (delivery === null) return park('no_value')
    const target = this.#parts.targets().targets.get(delivery.target)
    if (!target) return this.#wait(delivery.target, message, context)
    const state = this.#stateOf(target, message.partition)
    const head = state.headOf(message.offset, delivery, context.attempt - 1)
    const work: Work = { state, head, message, delivery, context }
    if (this.#parts.skips.covers(target.name, message)) {
      return this.#park(work, null, 'skipped')
    }
    const waitMs = state.waitMs(head, performance.now())
    return waitMs > 0
      ? postpone('waits its turn', Math.min(waitMs, headWaitMsMax), context.retriesUsed)
      : work
  }

  #stateOf(target: WebhookTarget, partition: number): TargetState {
    const key = `${partition}/${target.name}`
    const state = this.#states.get(key) ?? new TargetState(target, partition, this.#parts.names.lookup)
    this.#states.set(key, state)
    return state
  }

  #call({ state, message, delivery, context }: Work): Promise<CallResult> {
    if (context.attempt === 1) this.#parts.load.came(state.target.name, message.timestamp)
    const headers = requestHeaders(state.headers, delivery, {
      sequence: delivery.sequence ?? message.offset,
      previous: this.lanes.previousOf(delivery, message),
      attempt: context.attempt,
      nowMs: Date.now(),
    })
    const request = { headers, body: delivery.body, signal: context.lost }
    return callInSpan(this.#parts.tracing ?? noTracing, state, request, context.attempt)
  }

  #conclude(work: Work, result: CallResult): LaneOutcome {
    const { state, head, message, context } = work
    // It may have arrived, so it counts as an attempt, but tells nothing about the target.
    if (result.fault === 'stopped') return keepTrying('stopped', 0, context.retriesUsed)
    const { target } = state
    const verdict = verdictOf(result)
    const breakerOpen = state.breaker === 'open'
    this.#noteAnswer(state, verdict, result)
    const nowMs = Date.now()
    const ageMs = nowMs - message.timestamp
    const decision = decide({ verdict, retriesUsed: context.retriesUsed, breakerOpen, ageMs }, target)
    let waitMs: number
    switch (decision.kind) {
      case 'deliver':
        this.#settle(work)
        reportAttempt(this.#parts, work, 'success', result)
        return done
      case 'park': {
        const code = codeOf(result)
        return this.#park(work, result, decision.why === 'answer' ? code : `held_too_long: ${code}`)
      }
      case 'retry':
        waitMs = retryWaitMs(decision.retriesUsed, target.backoffMs, result, nowMs)
        return this.#again(work, result, decision.retriesUsed, waitMs)
      case 'hold':
        waitMs = outageWaitMs(decision.tries, target.backoffMs, result, nowMs)
        return this.#again(work, result, decision.retriesUsed, waitMs)
      case 'outage': {
        const tries = this.#away(state, head, codeOf(result))
        waitMs = outageWaitMs(tries, target.backoffMs, result, nowMs)
        state.nextTryAt(head, performance.now() + waitMs)
        return this.#again(work, result, decision.retriesUsed, waitMs)
      }
    }
  }

  #again(work: Work, result: CallResult, retriesUsed: number, waitMs: number): Hold {
    work.head.dueAtMs = performance.now() + waitMs
    const { target } = work.state
    const { targets, log } = this.#parts
    if (result.location !== null && !work.state.redirectReported) {
      work.state.redirectReported = true
      // The query may hold a token.
      const location = redact(result.location.replace(/[?#].*$/s, '').slice(0, 200), targets().secrets)
      log.warn({ target: target.name, location, hint: 'redirects are not followed' }, 'webhooks.redirected')
    }
    reportAttempt(this.#parts, work, 'retry', result)
    return keepTrying(codeOf(result), waitMs, retriesUsed)
  }

  #park(work: Work, result: CallResult | null, reason: string): Outcome {
    this.#settle(work)
    reportAttempt(this.#parts, work, 'dead_letter', result)
    return park(reason, { tried: result !== null })
  }

  /** The head is settled: its lane has a new last sequence. */
  #settle({ state, message, delivery }: Work): void {
    state.leave(message.offset)
    if (state.roomForOthers()) this.#parts.wakeups.wake(message.partition)
    this.lanes.settled(delivery, message)
  }

  /** Any whole answer closes the breaker, except those that say the target is away. */
  #noteAnswer(state: TargetState, verdict: Verdict, result: CallResult): void {
    const { load, log, names, attempts } = this.#parts
    const { target } = state
    if (result.status === null) names.forget(target.url.hostname)
    if (state.breaker === 'closed') load.tried(target.name, verdict !== 'delivered', result.tookMs)
    if (verdict === 'away') return
    if (state.answered()) {
      log.info({ target: target.name }, 'webhooks.target-back')
      attempts.add(stateRecord(state, null))
    }
  }

  #away(state: TargetState, head: Head, code: string): number {
    const opens = state.breaker === 'closed'
    const tries = state.away(head)
    if (opens) {
      const { log, attempts } = this.#parts
      log.warn({ target: state.target.name, code, hint: 'its events wait, in order' }, 'webhooks.target-away')
      attempts.add(stateRecord(state, null))
    }
    return tries
  }

  #wait(target: string, message: Delivery, { retriesUsed }: CallContext): LaneOutcome {
    // An operator who forgets the target gives up its pending events.
    if (this.#parts.skips.covers(target, message)) return park('skipped')
    const { leftMs, first } = this.#unknown.left(target, message.partition, message.timestamp)
    if (first) {
      const hint = 'its events wait for a targets file that names it'
      this.#parts.log.warn({ target, hint }, 'webhooks.target-unknown')
    }
    return leftMs > 0
      ? postpone('unknown target', Math.min(leftMs, headWaitMsMax), retriesUsed)
      : park('target_removed')
  }
}
