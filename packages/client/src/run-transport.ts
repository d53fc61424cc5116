/** Calls to the run gateway, and streams of it that are opened again where it is away. */

import { pauseBetween } from './events.ts'
import { isAway, ProblemError } from './problem-error.ts'
import type { Answer, Call, OpenAnswer } from './transport.ts'

/** Sends calls with a credential to the run gateway, or to the main API. */
export interface RunTransport {
  respond<T>(call: Call): Promise<Answer<T>>
  open(call: Call): Promise<OpenAnswer>
  /** At the main API a run is made first, and its events are read afterwards. */
  atMainApi?: boolean
}

/** How long a stream is tried again without an event between: a gateway needs a moment to start. */
export const awayMsMax = 60_000
/** A gateway that is away is asked again until then. */
export async function openedWithin(
  open: () => Promise<OpenAnswer>,
  until: number,
  signal: AbortSignal | undefined,
): Promise<OpenAnswer> {
  for (;;) {
    try {
      return await open()
    } catch (error) {
      const away = error instanceof ProblemError && isAway(error)
      if (!away || performance.now() > until) throw error
    }
    await pauseBetween(signal)
    signal?.throwIfAborted()
  }
}
