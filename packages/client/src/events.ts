/** Reads server-sent events from the body of an answer. */

import { ownProblem, ProblemError } from './problem-error.ts'

export interface ServerEvent {
  /** `message` where the server names none. */
  event: string
  /** The id of this event, or of the last one that had an id: where the stream resumes. */
  id: string | undefined
  data: string
}

/** After an event `end` with one of these codes the stream is opened again; whether its caller may is answered then. */
const resumable: readonly unknown[] = [
  'shutting_down',
  'token_expired',
  'unauthorized',
  'log_unavailable',
  'registry_unavailable',
  'position_expired',
]
/** Between the end of a stream and the next attempt. */
const pauseMs = 500
/** The platform sends something every fifteen seconds. */
const silenceMsMax = 45_000

/** Ends with the body, and where it breaks or falls silent: the caller connects again. */
export async function* readEvents(
  body: AsyncIterable<Uint8Array>,
  silenceMs = silenceMsMax,
): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  const pieces = body[Symbol.asyncIterator]()
  let text = ''
  let id: string | undefined
  try {
    for (;;) {
      const piece = await withinSilence(pieces.next(), silenceMs)
      if (piece === undefined || piece.done) return
      text += decoder.decode(piece.value, { stream: true })
      // The end of a line may come in two pieces.
      const held = text.endsWith('\r') ? '\r' : ''
      text = text.slice(0, text.length - held.length).replace(/\r\n?/g, '\n')
      const frames = text.split('\n\n')
      text = (frames.pop() ?? '') + held
      for (const frame of frames) {
        const fields = fieldsOf(frame)
        id = fields.id ?? id
        if (fields.data === undefined) yield { event: 'heartbeat', id, data: '' }
        else yield { event: fields.event ?? 'message', id, data: fields.data }
      }
    }
  } finally {
    // Not waited for: a body that broke or is silent may not answer.
    pieces.return?.()?.catch(() => {})
  }
}

/** Throws ProblemError where another attempt would end the same way. */
export function refuseEnd(data: string): void {
  const { code } = JSON.parse(data) as { code?: unknown }
  if (resumable.includes(code)) return
  throw ownProblem('stream_ended', `the stream ended: ${code}`)
}

/** Before a stream is opened again. */
export function pauseBetween(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, pauseMs)
    function end() {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    signal?.addEventListener('abort', end, { once: true })
    if (signal?.aborted) end()
  })
}

/** Undefined where the connection broke or nothing came. */
async function withinSilence<T>(next: Promise<T>, silenceMs: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), silenceMs)
  })
  try {
    return await Promise.race([next, silence])
  } catch (error) {
    if (error instanceof ProblemError) throw error
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

function fieldsOf(frame: string): { event?: string; id?: string; data?: string } {
  const fields: Record<string, string> = {}
  for (const line of frame.split('\n')) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const name = line.slice(0, colon)
    const value = line.slice(colon + 1).replace(/^ /, '')
    fields[name] = name === 'data' && fields.data !== undefined ? `${fields.data}\n${value}` : value
  }
  return fields
}
