/** Sessions over the run gateway or the main API: lists, the events of one, and its deletion. */

import { pauseBetween, readEvents, refuseEnd } from './events.ts'
import { headerOf, nextOf, signalOf } from './hub.ts'
import { pathPart } from './path-part.ts'
import { awayMsMax, openedWithin, type RunTransport } from './run-transport.ts'
import type { RunEvent, RunSession, SessionCalls, SessionStream } from './run-types.ts'
import type { Call } from './transport.ts'

export function sessionsOver(calls: RunTransport): SessionCalls {
  const page = async <T>(
    path: string,
    { signal, ...fields }: { signal?: AbortSignal; [name: string]: unknown },
  ) => {
    const call = {
      method: 'GET' as const,
      path,
      query: queryOf(fields),
      repeatable: true,
      ...signalOf({ signal }),
    }
    const { data, headers } = await calls.respond<T[]>(call)
    return { data, next: nextOf(headers.get('link')) }
  }
  return {
    async list(filter = {}) {
      const { data, next } = await page<RunSession>('sessions', { ...filter })
      return { sessions: data, next }
    },
    async events(sessionId, given = {}) {
      const { data, next } = await page<RunEvent>(`${pathOf(sessionId)}/events`, { ...given })
      return { events: data, next }
    },
    follow: (sessionId, given = {}) => followOver(calls, sessionId, given),
    async delete(sessionId, { userId, signal } = {}) {
      // One that is gone is not found: only the caller knows whether an answer was lost.
      const call = {
        method: 'DELETE' as const,
        path: pathOf(sessionId),
        query: queryOf({ userId }),
        repeatable: false,
        ...signalOf({ signal }),
      }
      return (await calls.respond<Awaited<ReturnType<SessionCalls['delete']>>>(call)).data
    },
  }
}

function followOver(
  calls: RunTransport,
  sessionId: string,
  { userId, after, signal }: NonNullable<Parameters<SessionCalls['follow']>[1]>,
): SessionStream {
  let position = after
  const open = () =>
    calls.open({
      method: 'GET',
      path: `${pathOf(sessionId)}/events`,
      query: queryOf({ userId }),
      headers: { accept: 'text/event-stream', ...headerOf('last-event-id', position) },
      repeatable: true,
      ...signalOf({ signal }),
    })
  async function* read(): AsyncGenerator<RunEvent> {
    for (;;) {
      signal?.throwIfAborted()
      const { body } = await openedWithin(open, performance.now() + awayMsMax, signal)
      for await (const { event, id, data } of readEvents(body)) {
        if (event === 'end') refuseEnd(data)
        if (event !== 'message') continue
        position = id
        yield JSON.parse(data) as RunEvent
        signal?.throwIfAborted()
      }
      await pauseBetween(signal)
    }
  }
  return {
    get position() {
      return position
    },
    [Symbol.asyncIterator]: read,
  }
}

function queryOf(fields: Record<string, unknown>): NonNullable<Call['query']> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value === undefined ? undefined : String(value)]),
  )
}

function pathOf(sessionId: string): string {
  return `sessions/${pathPart(sessionId)}`
}
