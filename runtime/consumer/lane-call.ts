/** One call for the head of a lane; it carries what its end needs, so that nothing else is made for it. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Hold, Outcome } from '#lib/outcome.ts'
import type { SchemaName } from '#topics/topic.ts'
import type { LaneCallContext, LaneOptions } from '../consumer.ts'
import { Call } from './handler-calls.ts'
import type { Lane } from './lane.ts'
import type { AnyMessage } from './partition-host.ts'

export interface LaneCallOwner {
  /** Its handler has come to an end. */
  finished(call: LaneCall, result: Outcome | Hold | undefined, error: unknown): void
  /** It ended, or was given up. */
  ended(call: LaneCall, result: Outcome | Hold | undefined, error: unknown): void
}

export class LaneCall extends Call implements LaneCallContext {
  readonly lane: Lane
  readonly record: StoredRecord
  readonly over: () => void
  readonly #runner: LaneCallOwner

  constructor(partition: number, lane: Lane, record: StoredRecord, over: () => void, runner: LaneCallOwner) {
    super(partition, lane.attempts + 1, lane.spent)
    this.lane = lane
    this.record = record
    this.over = over
    this.#runner = runner
  }

  /** Begins the handler's call; the runner hears of its end, never before this returns. */
  run(options: LaneOptions<SchemaName>, message: AnyMessage): void {
    let ending: Promise<Outcome | Hold> | null
    try {
      ending = options.handle(message, this)
    } catch (error) {
      ending = Promise.reject(error)
    }
    if (ending !== null) void this.#await(ending)
  }

  async #await(ending: Promise<Outcome | Hold>): Promise<void> {
    let result: Outcome | Hold | undefined
    let error: unknown
    try {
      result = await ending
    } catch (thrown) {
      error = thrown
    }
    this.#runner.finished(this, result, error)
  }

  end(outcome: Outcome | Hold): void {
    this.#runner.finished(this, outcome, undefined)
  }

  override gaveUp(error: Error): void {
    this.#runner.ended(this, undefined, error)
  }
}
