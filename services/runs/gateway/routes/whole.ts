/** Answers with all events of a run at once, when it has ended. */

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Relational } from '#engines/relational/port.ts'
import { readEvents } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import { failureOf } from '../views.ts'
import type { StartedRun } from './start-run.ts'

/** Of events that are kept until the end; longer answers are read from the rows again. */
const keptBytesMax = 256 * 1024
const pageMax = 16

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
