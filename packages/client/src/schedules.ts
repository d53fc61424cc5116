/** Messages that go to agents by the clock, over the run gateway or the main API. */

import { headerOf, nextOf, signalOf } from './hub.ts'
import { pathPart } from './path-part.ts'
import { randomId } from './random.ts'
import type { RunTransport } from './run-transport.ts'
import type { NewSchedule, Schedule, ScheduleCalls, ScheduledRun } from './schedule-types.ts'
import type { Call } from './transport.ts'

interface Signal {
  signal?: AbortSignal
}

export function schedulesOver(calls: RunTransport): ScheduleCalls {
  const one = async <T>(call: Call, { signal }: Signal): Promise<T> =>
    (await calls.respond<T>({ ...call, ...signalOf({ signal }) })).data
  const pageOf = async <T>(path: string, { limit, cursor, signal }: Page & Signal) => {
    const query = { limit: limit === undefined ? undefined : String(limit), cursor }
    const call = { method: 'GET' as const, path, query, repeatable: true, ...signalOf({ signal }) }
    const { data, headers } = await calls.respond<T[]>(call)
    return { data, next: nextOf(headers.get('link')) }
  }
  return {
    create: ({ idempotencyKey = randomId(), signal, ...body }) =>
      one<Schedule>(
        {
          method: 'POST',
          path: 'schedules',
          body: bodyOf(body),
          headers: headerOf('idempotency-key', idempotencyKey),
          repeatable: true,
        },
        signalOf({ signal }),
      ),
    async list(given = {}) {
      const { data, next } = await pageOf<Schedule>('schedules', given)
      return { schedules: data, next }
    },
    get: (id, given = {}) => one<Schedule>({ method: 'GET', path: pathOf(id), repeatable: true }, given),
    update: (id, { signal, ...body }) =>
      one<Schedule>(
        { method: 'PATCH', path: pathOf(id), body: bodyOf(body), repeatable: true },
        signalOf({ signal }),
      ),
    // One that is gone is not found: only the caller knows whether an answer was lost.
    delete: (id, given = {}) => one({ method: 'DELETE', path: pathOf(id), repeatable: false }, given),
    async runs(id, given = {}) {
      const { data, next } = await pageOf<ScheduledRun>(`${pathOf(id)}/runs`, given)
      return { runs: data, next }
    },
  }
}

type Page = { limit?: number; cursor?: string }

/** Times may be given as dates. */
function bodyOf(fields: Partial<NewSchedule>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Date ? value.toISOString() : value,
    ]),
  )
}

function pathOf(id: string): string {
  return `schedules/${pathPart(id)}`
}
