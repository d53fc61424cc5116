/** Audit notes: what they hold, which record of an event wins, how they yield, which ones are pruned. */

import { v7 as uuidv7 } from 'uuid'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import type { Embedder } from '#engines/embedder/port.ts'
import { auditNoteTime } from '#engines/vectors/collections.ts'
import { AppError } from '#lib/errors.ts'
import type { Message } from '#runtime/publish/messages.ts'
import { createArrivals, createPace } from '#runtime/repeat.ts'
import type { AuditEvent } from '#schemas/types.ts'
import { createHandler, noteOf, pruneAuditNotes } from '#services/access/audit/writer/service.ts'
import { auditEvent } from '#test/support/audit-event.ts'

const signal = new AbortController().signal

function messages(events: AuditEvent[], timestamp = 0): Message<AuditEvent>[] {
  return events.map((value, offset) => ({
    key: 'scout',
    value,
    partition: 0,
    offset,
    headers: {},
    timestamp,
  }))
}

interface Published {
  key: { collection: string; id: string }
  value: { payload: string; vector: Buffer } | null
}

async function handle(
  events: AuditEvent[],
  publish: (messages: Published[]) => Promise<unknown>,
  embedder: Embedder = openLocalEmbedder(),
) {
  const handler = createHandler({
    embedder,
    writers: {
      of: () => ({ publish: (_topic: unknown, list: Published[]) => publish(list) }) as never,
    },
    pace: { take: async () => {} },
  })
  return handler(messages(events), { signal, partition: 0 })
}

describe('an audit note', () => {
  it('has exactly the three tags and names the operation', () => {
    expect(noteOf(auditEvent())).toEqual({
      id: 'audit-0199aaaa-0000-7000-8000-000000000001',
      text: 'search on posts by scout: ok',
      payload: {
        title: 'search on posts by scout: ok',
        collection: 'posts',
        status: 'resolved',
        tags: ['auth', 'vector', 'scout'],
        updated_at: '2026-01-02T03:04:05.006Z',
        operation: 'search',
        outcome: 'ok',
        status_code: 200,
        took_ms: 3.5,
        request_id: 'r-1',
      },
    })
  })

  it('is written once for an event whose beginning and end are in one batch, as the end says', async () => {
    const written: Published[] = []
    const begun = auditEvent({ phase: 'begun', outcome: 'unknown', status_code: null, took_ms: null })
    const outcomes = await handle([begun, auditEvent(), begun], async (list) => written.push(...list))
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(['done', 'done', 'done'])
    expect(written).toHaveLength(1)
    expect(written[0]!.key).toEqual({ collection: 'fleet_notes', id: `audit-${begun.event_id}` })
    expect(JSON.parse(written[0]!.value!.payload)).toMatchObject({ outcome: 'ok', status_code: 200 })
    expect(written[0]!.value!.vector).toHaveLength(1536 * 4)
  })

  it('is embedded once for each text of a batch', async () => {
    const texts: string[] = []
    const local = openLocalEmbedder()
    const embedder: Embedder = {
      ...local,
      embed: (each) => {
        texts.push(...each)
        return local.embed(each)
      },
    }
    const events = Array.from({ length: 250 }, (_, n) =>
      auditEvent({ event_id: `e-${n}`, agent_id: `agent-${n % 3}`, took_ms: n }),
    )
    const written: Published[] = []
    await handle(events, async (list) => written.push(...list), embedder)
    expect(texts).toEqual([0, 1, 2].map((n) => `search on posts by agent-${n}: ok`))
    expect(written.map(({ key }) => key.id)).toEqual(events.map(({ event_id: id }) => `audit-${id}`))
    for (const [n, { value }] of written.entries()) {
      const [vector] = await local.embed([texts[n % 3]!])
      expect(Buffer.from(vector!.buffer).equals(value!.vector)).toBe(true)
    }
  })

  it('reads outcome unknown while only its beginning is known', async () => {
    const written: Published[] = []
    await handle([auditEvent({ phase: 'begun', outcome: 'unknown' })], async (list) => written.push(...list))
    expect(JSON.parse(written[0]!.value!.payload)).toMatchObject({ outcome: 'unknown', status: 'active' })
  })

  it('waits while the log is away', async () => {
    const outcomes = await handle([auditEvent()], async () => {
      throw new AppError('log_unavailable', 'away')
    })
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(['unavailable'])
  })
})

describe('the pace', () => {
  it('holds back young notes, and not those that are late already', async () => {
    const held: number[] = []
    const handler = createHandler({
      embedder: openLocalEmbedder(),
      writers: { of: () => ({ publish: async () => [] }) },
      pace: { take: async (units) => void held.push(units) },
    })
    const now = Date.now()
    await handler(messages([auditEvent()], now - 290_000), { signal, partition: 0 })
    expect(held).toEqual([1])
    await handler(messages([auditEvent()], now - 310_000), { signal, partition: 0 })
    expect(held).toEqual([1])
  })

  describe('by a clock that is stepped', () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
    afterEach(() => void vi.useRealTimers())

    /** When each of them may begin, in ms from now. */
    async function begins(takes: (() => Promise<void>)[]): Promise<number[]> {
      const from = performance.now()
      const begunAt: number[] = []
      const all = Promise.all(takes.map((take) => take().then(() => begunAt.push(performance.now() - from))))
      while (begunAt.length < takes.length) await vi.advanceTimersByTimeAsync(1)
      await all
      return begunAt
    }

    it('holds back over all callers together while busy, and not at all otherwise', async () => {
      let busy = true
      const released = new AbortController()
      const pace = createPace({ busyPerSecond: 100, busy: async () => busy, released: released.signal })
      const ten = () => pace.take(10, signal)
      expect(await begins([ten, ten, ten])).toEqual([0, 100, 200])
      // None of these waits for a clock that is stopped.
      busy = false
      await pace.take(1_000_000, signal)
      await pace.take(1, signal)
      busy = true
      released.abort()
      await pace.take(1_000_000, signal)
      await pace.take(1, signal)
    })
  })
})

describe('arrivals', () => {
  it('say that requests keep coming while the log grows fast, and stop saying so when it rests', async () => {
    const log = { total: 0, ms: 0, away: false }
    const busy = createArrivals({
      total: async () => {
        if (log.away) throw new AppError('log_unavailable', 'away')
        return log.total
      },
      busyFromPerSecond: 40,
      sampleMs: 500,
      now: () => log.ms,
    })
    const advance = (ms: number, records: number) => {
      log.ms += ms
      log.total += records
      return busy()
    }
    expect(await advance(0, 1_000_000)).toBe(false)
    expect(await advance(500, 15)).toBe(false)
    expect(await advance(500, 25)).toBe(true)
    expect(await advance(100, 0)).toBe(true)
    expect(await advance(500, 0)).toBe(false)
    expect(await advance(60_000, 100_000)).toBe(false)
    expect(await advance(500, 100)).toBe(true)
    log.away = true
    expect(await advance(500, 100)).toBe(false)
  })
})

describe('arrivals after a rest', () => {
  it('are measured at once where the caller may wait a moment', async () => {
    const log = { total: 0, ms: 0, perSecond: 0 }
    const advance = (ms: number) => {
      log.ms += ms
      log.total += (log.perSecond * ms) / 1_000
    }
    const waited: number[] = []
    const busy = createArrivals({
      total: async () => log.total,
      busyFromPerSecond: 40,
      sampleMs: 2_000,
      freshSampleMs: 250,
      now: () => log.ms,
      wait: async (ms) => {
        waited.push(ms)
        advance(ms)
      },
    })
    log.perSecond = 200
    expect(await busy()).toBe(true)
    advance(2_000)
    expect(await busy()).toBe(true)
    expect(waited).toEqual([250])
    log.perSecond = 0
    advance(60_000)
    expect(await busy()).toBe(false)
    advance(5_000)
    log.perSecond = 200
    advance(100)
    expect(await busy()).toBe(true)
    expect(waited).toEqual([250, 250, 250])
  })
})

describe('retention', () => {
  const day = 86_400_000
  const now = Date.now()
  const idAt = (ms: number) => `audit-${uuidv7({ msecs: ms })}`

  it('knows the time of an audit id and of no other', () => {
    expect(auditNoteTime(idAt(now))).toBe(now)
    for (const id of ['note-1', 'audit-', 'audit-mine', `audit-${'0'.repeat(36)}`, `x${idAt(now)}`]) {
      expect(auditNoteTime(id)).toBeNull()
    }
  })

  it('deletes old audit notes, page by page, and never another note', async () => {
    const ids = [idAt(now - 40 * day), idAt(now - 31 * day), idAt(now - 29 * day), 'note-1', 'audit-mine']
    const deleted: unknown[] = []
    const count = await pruneAuditNotes({
      vectors: {
        async scroll(_collection, { offset, filter }) {
          expect(filter).toEqual({ must: [{ key: 'tags', match: { value: 'auth' } }] })
          const at = offset === undefined ? 0 : ids.indexOf(offset)
          return { points: ids.slice(at, at + 2).map((id) => ({ id })), next: ids[at + 2] ?? null }
        },
      },
      publisher: {
        publish: (async (_topic: unknown, list: unknown[]) => {
          deleted.push(...list)
          return []
        }) as never,
      },
      retentionDays: 30,
      now: () => now,
      signal,
    })
    expect(count).toBe(2)
    expect(deleted).toEqual(
      ids.slice(0, 2).map((id) => ({ key: { collection: 'fleet_notes', id }, value: null })),
    )
  })
})
