/** Whether a caller wants its answer as server-sent events. */

export function acceptsEvents(accept: string | undefined): boolean {
  return /(^|,)\s*text\/event-stream\s*(;|,|$)/i.test(accept ?? '')
}
