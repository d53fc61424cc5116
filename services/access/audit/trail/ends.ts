/** Gathers the ends of audited requests, so that few appends carry many of them. */

import type { OutgoingMessage } from '#runtime/publish/messages.ts'
import type { AuditEvent } from '#schemas/types.ts'

/**
 * An end waits this long for others to go with it: an append for each, and what reads it, would keep the log busy when
 * the beginning of the next request comes, for which a caller waits. A kill loses the ends of this time: their notes
 * read outcome `unknown`.
 */
const gatherMs = 200
const gatheredMax = 200
/** Ends that wait for the log at once; further ones are given up (their notes read outcome `unknown`). */
const waitingMax = 20_000

export type EndMessage = OutgoingMessage<string, AuditEvent>

export interface Ends {
  add(partition: number, message: EndMessage): void
  /** Resolves when every end that was added is written or given up. */
  flush(): Promise<void>
}

interface EndsParts {
  publish(messages: EndMessage[], partition: number): Promise<unknown>
  /** Called with how many ends are given up, and why. */
  onLost(count: number, error: unknown): void
}

export function createEnds(parts: EndsParts): Ends {
  const gathered = new Map<number, EndMessage[]>()
  const open = new Set<Promise<unknown>>()
  let waiting = 0
  let timer: NodeJS.Timeout | undefined

  function send(partition: number): void {
    const messages = gathered.get(partition)
    if (!messages) return
    gathered.delete(partition)
    const sent: Promise<unknown> = parts
      .publish(messages, partition)
      .catch((error) => parts.onLost(messages.length, error))
      .finally(() => {
        waiting -= messages.length
        open.delete(sent)
      })
    open.add(sent)
  }
  function sendAll(): void {
    clearTimeout(timer)
    timer = undefined
    for (const partition of [...gathered.keys()]) send(partition)
  }

  return {
    add(partition, message) {
      if (waiting >= waitingMax) {
        parts.onLost(1, new Error('too many audit ends wait for the log'))
        return
      }
      waiting += 1
      const messages = gathered.get(partition)
      if (messages) messages.push(message)
      else gathered.set(partition, [message])
      if (messages && messages.length >= gatheredMax) send(partition)
      timer ??= setTimeout(sendAll, gatherMs)
    },
    async flush() {
      sendAll()
      while (open.size > 0) await Promise.all(open)
    },
  }
}
