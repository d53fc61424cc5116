/** What the relational-writer does with batches: order, positions, parking, joining, and columns of odd payloads. */

import { describe, expect, it } from 'vitest'
import type { Mirror, MirrorOperation, MirrorPosition } from '#engines/relational/mirror/port.ts'
import { AppError } from '#lib/errors.ts'
import type { CallContext } from '#runtime/consume/consumer.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import type { Collections } from '#services/vectors/collections/registry.ts'
import { createGeneration, joinApplies, rowOf } from '#services/vectors/relational/generation.ts'
import { createEngineCalls } from '#services/vectors/write/generation-writer.ts'
import { handleBatch } from '#test/support/consumer-handle-batch.ts'
import { theFourAlone } from '../../../../support/collections.ts'

const target = { generation: 1, epoch: 1 }

interface Applied {
  ids: string[]
  positions: MirrorPosition[]
}

/** A mirror that refuses batches with an id that begins with `bad`, and is away while `away` says so. */
function fakeMirror(state: { away?: boolean } = {}) {
  const applied: Applied[] = []
  const mirror: Pick<Mirror, 'driver' | 'apply' | 'positions'> = {
    driver: 'embedded',
    async apply(_, operations, positions) {
      if (state.away) throw new AppError('relational_engine_unavailable', 'away')
      if (operations.some((one) => one.id.startsWith('bad')))
        throw new AppError('validation_failed', 'refused')
      applied.push({ ids: operations.map((one) => one.id), positions })
    },
    positions: async () => [{ partition: 0, next: 5 }],
  }
  return { mirror, applied }
}

function messageOf(offset: number, key: string, payload: string | null = '{}'): Message<VectorUpsert> {
  const value =
    payload === null
      ? null
      : { vector: Buffer.alloc(6144), payload, embedder: null, making: null, expires_at: null }
  return { key, value, headers: {}, timestamp: 0, partition: 0, offset }
}

/** An operator passes the record at this offset. */
const passedOffset = 77

const context = {
  signal: new AbortController().signal,
  attempt: 1,
  retriesUsed: 0,
  partition: 0,
} as CallContext
const generationOf = (
  mirror: Pick<Mirror, 'driver' | 'apply' | 'positions'>,
  collections: Pick<Collections, 'standing'> = theFourAlone,
) =>
  createGeneration({
    mirror,
    target,
    logStarts: async () => new Map([[1, 7]]),
    calls: createEngineCalls({ recordsMax: 100, budgetMs: 1_000, stuck: { failedAlone() {} } }),
    stuck: { isSkipped: (_, offset) => offset === passedOffset },
    collections,
  })

describe('a batch', () => {
  it('skips audit notes, and its position ends behind its last operation', async () => {
    const { mirror, applied } = fakeMirror()
    const outcomes = await generationOf(mirror).handle(
      [messageOf(0, 'posts/a'), messageOf(1, 'posts/b', null), messageOf(2, 'fleet_notes/audit-1')],
      context,
    )
    expect(outcomes.map((one) => one.kind)).toEqual(['done', 'done', 'done'])
    expect(applied).toEqual([{ ids: ['a', 'b'], positions: [{ partition: 0, next: 2 }] }])
  })

  it('deletes rows of a collection that is gone, and writes none', async () => {
    const { mirror, applied } = fakeMirror()
    const key = 'mine~0a1b2c3d4e/a'
    const generation = generationOf(mirror, { standing: () => ({ purgedAt: new Date() }) })
    await generation.handle([messageOf(0, key), messageOf(1, key, null)], context)
    expect(applied).toEqual([{ ids: ['a'], positions: [{ partition: 0, next: 2 }] }])
  })

  it('never passes a record that is yet to be parked, and passes it once it is', async () => {
    const { mirror, applied } = fakeMirror()
    const generation = generationOf(mirror)
    const outcomes = await generation.handle(
      [messageOf(0, 'posts/a'), messageOf(1, 'posts/x', '[]'), messageOf(2, 'posts/c')],
      context,
    )
    expect(outcomes.map((one) => one.kind)).toEqual(['done', 'park', 'done'])
    expect(applied).toEqual([{ ids: ['a', 'c'], positions: [] }])
    generation.parked?.(0)
    await generation.settled?.(0, 2)
    await generation.settled?.(0, 2)
    expect(applied.slice(1)).toEqual([{ ids: [], positions: [{ partition: 0, next: 3 }] }])
  })

  it('is halved until the refused row is found, in the order of the log', async () => {
    const { mirror, applied } = fakeMirror()
    const keys = ['a', 'a', 'bad', 'd', 'e']
    const generation = generationOf(mirror)
    const outcomes = await handleBatch(
      (messages) => generation.handle(messages, context),
      keys.map((key, i) => messageOf(i, `posts/${key}`)),
      ({ partition }) => generation.parked?.(partition),
    )
    expect(outcomes.map((one) => one.kind)).toEqual(['done', 'done', 'park', 'done', 'done'])
    expect(applied.flatMap((one) => one.ids)).toEqual(['a', 'a', 'd', 'e'])
    const positions = applied.flatMap((one) => one.positions.map(({ next }) => next))
    expect(Math.max(...positions)).toBe(2)
  })

  it('reports what it could not write as unavailable while the engine is away', async () => {
    const { mirror } = fakeMirror({ away: true })
    const outcomes = await generationOf(mirror).handle(
      [messageOf(0, 'nowhere/a'), messageOf(1, 'posts/b')],
      context,
    )
    expect(outcomes.map((one) => one.kind)).toEqual(['park', 'unavailable'])
  })

  it('gives the positions of the tables, and the beginning of the log where they have none', async () => {
    const { mirror } = fakeMirror()
    expect(await generationOf(mirror).positions?.([0, 1])).toEqual(
      new Map([
        [0, 5],
        [1, 7],
      ]),
    )
  })

  it('passes audit notes without writing each time, and leaves its position behind the last of them', async () => {
    const { mirror, applied } = fakeMirror()
    const generation = generationOf(mirror)
    await generation.positions?.([0])
    await generation.settled?.(0, 10)
    for (let offset = 20; offset < 2_000; offset += 10) await generation.settled?.(0, offset)
    expect(applied).toHaveLength(1)
    await generation.keep?.()
    await generation.keep?.()
    expect(applied.slice(1)).toEqual([{ ids: [], positions: [{ partition: 0, next: 1_991 }] }])
  })

  it('parks the record that an operator passes, and its position does not go beyond it before', async () => {
    const { mirror, applied } = fakeMirror()
    const messages = [messageOf(76, 'posts/a'), messageOf(passedOffset, 'posts/b'), messageOf(78, 'posts/c')]
    const outcomes = await generationOf(mirror).handle(messages, context)
    expect(outcomes).toMatchObject([{ kind: 'done' }, { kind: 'park' }, { kind: 'done' }])
    expect(applied).toEqual([{ ids: ['a', 'c'], positions: [] }])
  })

  it('ends at once when its call is given up, and parks nothing', async () => {
    const { mirror } = fakeMirror()
    mirror.apply = () => new Promise(() => {})
    const given = new AbortController()
    const handled = generationOf(mirror).handle([messageOf(0, 'posts/a')], {
      ...context,
      signal: given.signal,
    })
    setTimeout(() => given.abort(), 20)
    expect(await handled).toMatchObject([{ kind: 'unavailable' }])
  })
})

describe('joined batches', () => {
  const operation = (id: string): MirrorOperation => ({
    partition: 0,
    offset: 0,
    collection: 'posts',
    id,
    row: null,
  })

  it('are written together, and a refused one affects no other', async () => {
    const { mirror, applied } = fakeMirror()
    const apply = joinApplies(mirror, target)
    const results = await Promise.allSettled(['a', 'bad', 'c'].map((id) => apply([operation(id)], [])))
    expect(results.map((one) => one.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(applied.map((one) => one.ids)).toEqual([['a'], ['c']])
    await Promise.all(['d', 'e'].map((id) => apply([operation(id)], [])))
    expect(applied.at(-1)?.ids).toEqual(['d', 'e'])
  })
})

describe('a row', () => {
  const of = (payload: Record<string, unknown>) =>
    rowOf({
      kind: 'upsert',
      id: 'a',
      position: { epoch: 1, offset: 0 },
      vector: new Float32Array(1536),
      payload: payload as never,
    })
  const updated = (text: unknown) => of({ updated_at: text }).updatedAt?.toISOString() ?? null

  it('has the expiry of its point, and null for one that stays', () => {
    const expiring = (expiresAt?: number) =>
      rowOf({
        kind: 'upsert',
        id: 'a',
        position: { epoch: 1, offset: 0 },
        vector: new Float32Array(1536),
        payload: {},
        ...(expiresAt === undefined ? {} : { expiresAt }),
      }).expiresAt?.toISOString() ?? null
    expect(expiring()).toBeNull()
    expect(expiring(Date.UTC(2027, 0, 31, 12, 0, 0, 5))).toBe('2027-01-31T12:00:00.005Z')
  })

  it('has a timestamp where there is one, and null elsewhere', () => {
    expect(updated('2026-11-21T01:02:03.004Z')).toBe('2026-11-21T01:02:03.004Z')
    expect(updated('2026-11-21 01:02:03+0130')).toBe('2026-11-20T23:32:03.000Z')
    expect(updated('2026-11-21T01:02')).toBe('2026-11-21T01:02:00.000Z')
    expect(updated('2026-11-21')).toBe('2026-11-21T00:00:00.000Z')
    for (const none of [
      '2026-02-30',
      '2026-13-01',
      'soon',
      '',
      7,
      null,
      '2026-11-21T25:00:00Z',
      '+275760-09-13',
    ]) {
      expect(updated(none), String(none)).toBeNull()
    }
  })

  it('keeps keys that look like the language’s own', () => {
    const payload = JSON.parse('{"__proto__": {"a": 1}, "constructor": "x", "": 2}')
    expect(JSON.stringify(of(payload).payload)).toBe('{"__proto__":{"a":1},"constructor":"x","":2}')
  })

  it('cuts values nested too deep for the engine', () => {
    let deep: unknown = 'bottom'
    for (let i = 0; i < 5_000; i++) deep = [deep]
    const text = JSON.stringify(of({ deep, shallow: 1 }).payload)
    expect(text).toContain('"shallow":1')
    expect(text.length).toBeLessThan(1_000)
  })
})
