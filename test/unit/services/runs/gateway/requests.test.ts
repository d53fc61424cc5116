import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { acceptsEvents } from '#runtime/http/event-stream.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { maySee, userFor } from '#services/runs/gateway/owned.ts'
import { checkedId } from '#services/runs/gateway/requests.ts'
import { wantedBy } from '#services/runs/gateway/routes/run.ts'

const caller = (kind: Caller['kind'], access: Caller['access'], id: string) =>
  ({ kind, access, uid: `uid-${id}`, agentId: kind === 'person' ? `uid-${id}` : id }) as Caller

/** A database where every name means this one. */
const whereNamesMean = (uid: string | null) =>
  ({ query: async () => ({ rows: [{ uid }], rowCount: 1 }) }) as unknown as SqlExecutor
const unasked = { query: () => Promise.reject(new Error('nobody needs to be asked')) } as SqlExecutor

describe('the user of a run', () => {
  const person = caller('person', 'member', 'p')
  const agent = caller('agent', 'member', 'a')
  const mismatch = expect.objectContaining({ code: 'user_mismatch', statusCode: 403 })

  it('is the caller where nothing is said', async () => {
    expect(await userFor(unasked, person, undefined)).toBe('uid-p')
    expect(await userFor(unasked, agent, undefined)).toBe('a')
  })

  it('is anyone for admins, a person alone for itself', async () => {
    expect(await userFor(unasked, caller('person', 'admin', 'p'), 'x')).toBe('x')
    expect(await userFor(unasked, caller('agent', 'admin', 'a'), 'x')).toBe('x')
    expect(await userFor(unasked, person, 'uid-p')).toBe('uid-p')
    await expect(userFor(unasked, person, 'x')).rejects.toEqual(mismatch)
  })

  it('is for agents whom nobody of the platform is, and themselves', async () => {
    expect(await userFor(whereNamesMean(null), agent, 'x')).toBe('x')
    expect(await userFor(whereNamesMean('uid-a'), agent, 'A')).toBe('A')
    await expect(userFor(whereNamesMean('uid-x'), agent, 'x')).rejects.toEqual(mismatch)
  })

  it('sees its runs, as who started them and admins do; a name makes nobody the user', () => {
    const run = { callerUid: 'uid-a', userUid: 'uid-u', userId: 'x' }
    expect(maySee(caller('agent', 'viewer', 'a'), run)).toBe(true)
    expect(maySee(caller('agent', 'viewer', 'u'), run)).toBe(true)
    expect(maySee(caller('person', 'admin', 'x'), run)).toBe(true)
    expect(maySee(caller('agent', 'member', 'x'), run)).toBe(false)
    expect(maySee(caller('agent', 'member', 'x'), { callerUid: '', userUid: null })).toBe(false)
  })
})

it('an id that paths fold is refused, others are as they were', () => {
  const refused = expect.objectContaining({ code: 'validation_failed', statusCode: 422 })
  for (const id of ['.', '..']) expect(() => checkedId(id, 'sessionId')).toThrow(refused)
  for (const id of ['...', './', '../..', '%2e%2e', 'a/b']) expect(checkedId(id, 'sessionId')).toBe(id)
})

describe('how a caller wants to be answered', () => {
  const wanted = (headers: object, streaming = false) =>
    wantedBy({ headers } as unknown as FastifyRequest, streaming)
  it.each<[object, boolean, boolean, number, string | undefined]>([
    [{}, false, false, 60_000, undefined],
    [{}, true, true, 60_000, undefined],
    [{ accept: 'text/event-stream' }, false, true, 60_000, undefined],
    [{ prefer: 'respond-async' }, true, false, 0, 'respond-async'],
    [{ prefer: 'Respond-Async, wait=5' }, false, false, 0, 'respond-async'],
    [{ prefer: 'wait=5' }, false, false, 5_000, 'wait=5'],
    [{ prefer: 'foo; wait="7"' }, false, false, 7_000, 'wait=7'],
    [{ prefer: 'wait=900' }, false, false, 60_000, 'wait=60'],
    [{ prefer: 'wait=0' }, false, false, 0, 'wait=0'],
    [{ prefer: 'wait=-1, wait=x' }, false, false, 60_000, undefined],
    [{ prefer: 'wait=5' }, true, true, 60_000, undefined],
  ])('%j, streaming %s', (headers, streaming, stream, waitMs, applied) => {
    expect(wanted(headers, streaming)).toEqual({ stream, waitMs, applied })
  })

  it.each([
    ['text/event-stream', true],
    ['application/json;q=0.5, Text/Event-Stream;q=0.5', true],
    ['*/*', false],
    ['text/event-stream-x', false],
    [undefined, false],
  ])('Accept %s: %s', (accept, is) => expect(acceptsEvents(accept)).toBe(is))
})
