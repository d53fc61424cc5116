/** Events of the main API as they come, over any number of connections, without a gap. */

import { EventSourceParserStream } from 'eventsource-parser/stream'
import { withToken } from './api.ts'
import { asProblem, type Problem, problemOf } from './problem.ts'

export interface StreamEvent {
  event: string | undefined
  id: string | undefined
  data: unknown
}

interface StreamOptions {
  path: string
  signal: AbortSignal
  /** Where a stream that was read before ended. */
  lastEventId?: string | undefined
  /** null: it is connected; else why it is not, while it is tried again. */
  onState(problem: Problem | null): void
}

const waitMsMin = 500
const waitMsMax = 15_000

/** Goes on until the signal aborts; rejects with a Problem when the main API refuses it. */
export async function* streamEvents(options: StreamOptions): AsyncGenerator<StreamEvent> {
  const { path, signal, onState } = options
  let last = options.lastEventId
  let waitMs = waitMsMin
  while (!signal.aborted) {
    try {
      const body = await connect(path, last, signal)
      onState(null)
      // It has ended, and all of it was read.
      if (body === null) return
      waitMs = waitMsMin
      const events = body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
      for await (const { event, id, data } of events) {
        last = id ?? last
        if (event === 'end') break
        yield { event, id, data: JSON.parse(data) }
      }
    } catch (error) {
      if (signal.aborted) return
      const problem = asProblem(error)
      if (isFinal(problem)) throw problem
      onState(problem)
    }
    await sleep(waitMs * (0.5 + Math.random() / 2), signal)
    waitMs = Math.min(waitMs * 2, waitMsMax)
  }
}

async function connect(path: string, last: string | undefined, signal: AbortSignal) {
  const headers = { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) }
  const answer = await withToken(
    new Request(new URL(path, location.origin), { signal, headers, cache: 'no-store' }),
  )
  if (answer.status === 204) return null
  if (!answer.ok || !answer.body) throw await problemOf(answer)
  return answer.body
}

/** Whether a retry cannot help. */
function isFinal({ status }: Problem): boolean {
  return status >= 400 && status < 500 && status !== 429
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
    function done() {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
  })
}
