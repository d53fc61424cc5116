/** Answers with all events of a run at once: each holds a place as an open stream does, and ends with its caller or with the service. */

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Relational } from '#engines/relational/port.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import type { StreamPlace } from '#services/access/limits/caller-streams.ts'
import type { Tokens } from '#services/access/tokens/tokens.ts'
import type { Follow } from '../../follow/follow.ts'
import { readEvents } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import { failureOf } from '../views.ts'

/** Events kept until the end; longer answers are read from the rows again. */
const keptBytesMax = 256 * 1024
const pageMax = 16

/** A run whose answer is wanted. */
export interface StartedRun {
  run: Run
  /** Opened before the run was made, so that nothing is missed. Close it. */
  follow: Follow<Run>
  /** False for a run that was there before. */
  fresh: boolean
  join: boolean
}

/** False when the signal aborted first. Throws the problem of a run that has not completed. */
export async function answerWhole(
  { relational }: { relational: Relational },
  reply: FastifyReply,
  { follow, fresh, run, join }: StartedRun,
  signal: AbortSignal,
): Promise<boolean> {
  let kept: string[] = []
  let bytes = 0
  try {
    const events = follow.events({ after: 0, fresh, signal })
    for (;;) {
      const { done, value } = await events.next()
      if (done) {
        if (value === undefined) return false
        const failure = value.completed ? undefined : failureOf(await value.read())
        if (failure) throw failure
        reply.type('application/json; charset=utf-8')
        reply.send(
          bytes > keptBytesMax ? Readable.from(arrayOf(relational, run, join)) : `[${kept.join(',')}]`,
        )
        return true
      }
      if (value.seq === null) continue
      bytes += value.json.length
      if (bytes > keptBytesMax) kept = []
      else kept.push(value.json)
    }
  } finally {
    follow.close()
  }
}

/** The same as text, a page of rows at a time. */
async function* arrayOf(
  relational: Relational,
  { runId, rootRunId }: Run,
  join: boolean,
): AsyncGenerator<string> {
  let after = 0
  let between = '['
  for (;;) {
    const query = { rootRunId, after, limit: pageMax, ...(join ? {} : { runId }) }
    const page = await readEvents(relational, query)
    for (const { seq, event } of page) {
      yield `${between}${JSON.stringify(event)}`
      between = ','
      after = seq
    }
    // A short page may have ended by its bytes.
    if (page.length === 0) break
  }
  yield between === '[' ? '[]' : ']'
}

export type Waits = ReturnType<typeof createWaits>

interface Waiting {
  caller: Caller
  reply: FastifyReply
  place: StreamPlace
  waitMs: number
}

export function createWaits({ tokens }: { tokens: Pick<Tokens, 'watch'> }) {
  // No more than places.
  const open = new Set<AbortController>()
  return {
    /**
     * Runs `work` until it resolves, or its signal aborts: the time is over, the caller left or was changed, or the service
     * stops. Gives the place back.
     */
    async during<T>({ caller, reply, place, waitMs }: Waiting, work: (signal: AbortSignal) => Promise<T>) {
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
    /** Before the service closes its connections: every answer says how far its run is. */
    endAll() {
      for (const over of open) over.abort()
    },
  }
}
