/** One call for the head of a lane; it carries what its end needs, so that nothing else is made for it. */

import type { StoredRecord } from '#engines/event-log/port.ts'
import type { Hold, Outcome } from '#lib/outcome.ts'
import { Call } from './calls.ts'
import type { Lane } from './lane.ts'

export interface LaneCallOwner {
  ended(call: LaneCall, result: Outcome | Hold | undefined, error: unknown): void
}

export class LaneCall extends Call {
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

  override gaveUp(error: Error): void {
    this.#runner.ended(this, undefined, error)
  }
}
