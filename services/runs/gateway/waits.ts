/** Answers that wait for a run: each holds a place as an open stream does, and ends with its caller's right or with the service. */

import type { FastifyReply } from 'fastify'
import type { Caller } from '#services/access/callers/caller.ts'
import type { StreamPlace } from '#services/access/limits/stream-places.ts'
import type { Tokens } from '#services/access/tokens/tokens.ts'

export interface Waits {
  /**
   * Runs `work` until it resolves, or its signal aborts: the time is over, the caller left or was changed, or the service
   * stops. Gives the place back.
   */
  during<T>(
    options: { caller: Caller; reply: FastifyReply; place: StreamPlace; waitMs: number },
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T>
  /** Before the service closes its connections: every answer says how far its run is. */
  endAll(): void
}

export function createWaits({ tokens }: { tokens: Pick<Tokens, 'watch'> }): Waits {
  // No more than places.
  const open = new Set<AbortController>()
  return {
    async during({ caller, reply, place, waitMs }, work) {
      const over = new AbortController()
      const end = () => over.abort()
      const timer = setTimeout(end, waitMs)
      const watch = tokens.watch(caller)
      watch.signal.addEventListener('abort', end)
      reply.raw.once('close', end)
      open.add(over)
      try {
        return await work(over.signal)
      } finally {
        clearTimeout(timer)
        watch.close()
        reply.raw.removeListener('close', end)
        open.delete(over)
        place.release()
      }
    },
    endAll() {
      for (const over of open) over.abort()
    },
  }
}
