/** The notes and goals of the hub: over the hub itself with a gateway key, or over the main API with an ID token. */

import { pauseBetween, readEvents, refuseEnd } from './events.ts'
import type {
  Change,
  ChangeOptions,
  CreateOptions,
  FollowOptions,
  Goals,
  Notes,
  Page,
  PageOptions,
  Records,
  Versioned,
} from './hub-types.ts'
import { pathPart } from './path-part.ts'
import { ProblemError } from './problem-error.ts'
import { randomId } from './random.ts'
import type { Answer, Call } from './transport.ts'

/** Sends calls with a credential; paths are those of the hub. */
export interface HubCalls {
  respond<T>(call: Call): Promise<Answer<T>>
  stream(call: Call): Promise<AsyncIterable<Uint8Array>>
}

export function hubOver(calls: HubCalls): { notes: Notes; goals: Goals } {
  return {
    notes: {
      ...recordsOf(calls, 'fleet_notes'),
      thread: (id, given = {}) => pageOf(calls, `fleet_notes/${pathPart(id)}/thread`, { ...given }),
    } as Notes,
    goals: recordsOf(calls, 'goals') as Goals,
  }
}

/** The calls of one kind of record; notes and goals differ only in their paths and types. */
function recordsOf(
  calls: HubCalls,
  path: string,
): Records<unknown, unknown, unknown, Record<string, string | undefined>> {
  const list = (given: Record<string, unknown> = {}) => pageOf(calls, path, given)
  return {
    list,
    async *all(given = {}) {
      let cursor = given.cursor
      do {
        const page: Page<unknown> = await list({ ...given, ...(cursor === undefined ? {} : { cursor }) })
        yield* page.records
        cursor = page.next
      } while (cursor !== undefined)
    },
    create: (body, options: CreateOptions = {}) =>
      versioned(calls, {
        method: 'POST',
        path,
        body,
        headers: headerOf('idempotency-key', options.idempotencyKey ?? randomId()),
        repeatable: true,
        ...signalOf(options),
      }),
    get: (id) => versioned(calls, { method: 'GET', path: `${path}/${pathPart(id)}`, repeatable: true }),
    update: (id, body, options: ChangeOptions = {}) =>
      versioned(calls, {
        method: 'PATCH',
        path: `${path}/${pathPart(id)}`,
        body,
        headers: headerOf('if-match', options.ifMatch),
        // A repeated one would undo what others changed meanwhile.
        repeatable: false,
        ...signalOf(options),
      }),
    events: (options = {}) => follow(calls, `${path}/events`, options),
  }
}

async function pageOf<T>(
  calls: HubCalls,
  path: string,
  { signal, limit, ...filters }: PageOptions & Record<string, unknown>,
): Promise<Page<T>> {
  const query = {
    ...(filters as Record<string, string | undefined>),
    limit: limit === undefined ? undefined : String(limit),
  }
  const { data, headers } = await calls.respond<T[]>({
    method: 'GET',
    path,
    query,
    repeatable: true,
    ...signalOf({ signal }),
  })
  return { records: data, next: nextOf(headers.get('link')) }
}

async function versioned<T extends object>(calls: HubCalls, call: Call): Promise<Versioned<T>> {
  const { data, headers } = await calls.respond<T>(call)
  return { ...data, etag: headers.get('etag') ?? '' }
}

/** The cursor of `<…?cursor=…>; rel="next"`. */
export function nextOf(link: string | null): string | undefined {
  const address = link?.match(/<([^>]*)>; rel="next"/)?.[1]
  if (address === undefined) return undefined
  return new URL(address, 'http://hub').searchParams.get('cursor') ?? undefined
}

async function* follow<T>(
  calls: HubCalls,
  path: string,
  { lastEventId, signal }: FollowOptions,
): AsyncGenerator<Change<T>> {
  let id = lastEventId
  while (!signal?.aborted) {
    const body = await opened(calls, {
      method: 'GET',
      path,
      headers: headerOf('last-event-id', id),
      repeatable: true,
      ...signalOf({ signal }),
    })
    if (body === undefined) return
    for await (const event of readEvents(body)) {
      id = event.id ?? id
      if (event.event === 'end') refuseEnd(event.data)
      else if (event.event === 'message') yield { type: 'change', id, record: JSON.parse(event.data) as T }
      else if (event.event !== 'heartbeat') yield { type: event.event as 'ready' | 'reset', id }
      if (signal?.aborted) return
    }
    await pauseBetween(signal)
  }
}

/** Undefined when the signal aborted meanwhile. */
async function opened(calls: HubCalls, call: Call): Promise<AsyncIterable<Uint8Array> | undefined> {
  try {
    return await calls.stream(call)
  } catch (error) {
    if (call.signal?.aborted && !(error instanceof ProblemError)) return undefined
    throw error
  }
}

export function headerOf(name: string, value: string | undefined): Record<string, string> {
  return value === undefined ? {} : { [name]: value }
}

export function signalOf({ signal }: { signal?: AbortSignal | undefined }): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal }
}
