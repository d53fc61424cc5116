/** One call for a batch. */

import type { Outcome } from '#lib/outcome.ts'
import { Call } from './calls.ts'

export class BatchCall extends Call {
  readonly ended: (outcomes: Outcome[] | undefined, error: unknown) => void

  constructor(partition: number, attempt: number, ended: BatchCall['ended']) {
    super(partition, attempt)
    this.ended = ended
  }

  override gaveUp(error: Error): void {
    this.ended(undefined, error)
  }
}
