/** One call for a batch, and what its outcomes say of the whole. */

import type { Outcome } from '#lib/outcome.ts'
import { Call } from './handler-calls.ts'

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

/** True when nothing of a batch went through and nothing tells its records apart: then it is halved. */
export function isRefused(outcomes: Outcome[]): boolean {
  return outcomes.length > 1 && outcomes.every((outcome) => outcome.kind === 'retry')
}
