/**
 * Records that were made from what a point held: whatever is written in between, a point ends as its writes in order say, and
 * the last record of each point in the log says the same, also for a reader that compares nothing.
 */

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { comparePositions, isNewer } from '#engines/vectors/collections.ts'
import type { HeldPoint, Payload, Point, PointOperation } from '#engines/vectors/port.ts'
import { done } from '#lib/outcome.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { changedPayload, type PayloadChange } from '#services/vectors/accept/payload-change.ts'
import { basisHeaders, basisOf, recordValue } from '#services/vectors/write/based-records.ts'
import { createEngineCalls } from '#services/vectors/write/generation-writer.ts'
import { createHandler } from '#services/vectors/write/handler.ts'
import { theFourAlone } from '../../../../support/collections.ts'

const { signal } = new AbortController()
const stuck = { isSkipped: () => false, failedAlone() {} }
const vector = new Float32Array(1536)
vector[0] = 1

/** What every engine does, with a point's newest position. */
function engine() {
  const held = new Map<string, HeldPoint>()
  return {
    held,
    apply(operations: PointOperation[]): void {
      for (const operation of operations) {
        if (!isNewer(operation.position, held.get(operation.id)?.position)) continue
        const { id, position } = operation
        const point = operation.kind === 'delete' ? {} : { point: { ...operation, id } as Point }
        held.set(id, { id, position, ...point })
      }
    },
  }
}

/** A partition of the log with a live writer; `writes` that come meanwhile are appended by the test. */
function world(epoch = 1) {
  const log: Message<VectorUpsert>[] = []
  const live = engine()
  let read = 0

  function append(id: string, value: VectorUpsert | null, headers: Record<string, string> = {}): void {
    log.push({ key: `posts/${id}`, value, headers, partition: 0, offset: log.length, timestamp: Date.now() })
  }
  const handle = handlerOf(live, epoch, (id, value, headers) => append(id, value, headers))
  return {
    log,
    live,
    append,
    upsert: (id: string, payload: Payload) =>
      append(id, { ...recordValue({ vector, payload }), making: null }),
    /** As the gateway makes one of what it reads at that moment. */
    change(id: string, change: PayloadChange): void {
      const known = live.held.get(id)
      if (!known?.point || !known.position) return
      const changed = changedPayload(known.point.payload, change)
      const value = { ...recordValue(known.point), making: null }
      const payload = 'json' in changed ? changed.json : value.payload
      append(id, { ...value, payload }, basisHeaders(known.position, { change }))
    },
    /** As the sweep makes one of what it finds expired at that moment. */
    expire(id: string): void {
      const known = live.held.get(id)
      if (known?.point && known.position) append(id, null, basisHeaders(known.position))
    },
    async work(records: number, { again = 0 } = {}) {
      const from = Math.max(0, read - again)
      const batch = log.slice(from, read + records)
      read = Math.min(log.length, read + records)
      return handle(batch)
    },
    async settle(): Promise<void> {
      while (read < log.length) await this.work(log.length - read)
    },
  }
}

function handlerOf(
  store: ReturnType<typeof engine>,
  epoch: number,
  publish: (id: string, value: VectorUpsert | null, headers: Record<string, string>) => void,
) {
  const handle = createHandler({
    applyPoints: async (_collection, operations) => store.apply(operations),
    epoch,
    calls: createEngineCalls({ recordsMax: 500, budgetMs: 1_000, stuck }),
    stuck,
    collections: theFourAlone,
    based: {
      held: async (_collection, ids) => ids.flatMap((id) => store.held.get(id) ?? []),
      async correct(_collection, settled) {
        for (const { read, settled: one } of settled) {
          if (!one.correction) continue
          const { value, headers } = one.correction
          publish(read.operation.id, value && { ...value, making: null }, headers)
        }
      },
    },
  })
  return (batch: Message<VectorUpsert>[]) => handle(batch, { signal, partition: 0 })
}

function payloadsOf(store: ReturnType<typeof engine>): Record<string, Payload> {
  const there = [...store.held.values()].flatMap(({ id, point }) => (point ? [[id, point.payload]] : []))
  return Object.fromEntries(there)
}

/** What a reader holds that takes each record as it is, where the log kept the last record of each key alone. */
function compacted(log: Message<VectorUpsert>[]): Record<string, Payload> {
  const last = new Map(log.map(({ key, value }) => [key.slice('posts/'.length), value]))
  return Object.fromEntries(
    [...last].flatMap(([id, value]) => (value ? [[id, JSON.parse(value.payload) as Payload]] : [])),
  )
}

type Step =
  | { do: 'upsert' | 'delete' | 'expire'; id: string }
  | { do: 'change'; id: string; keys: string[]; remove: boolean }
  | { do: 'work'; records: number; again: number }

const id = fc.constantFrom('a', 'b')
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom('upsert' as const, 'upsert' as const, 'delete' as const), id }),
  fc.record({ do: fc.constant('expire' as const), id }),
  fc.record({
    do: fc.constant('change' as const),
    id,
    keys: fc.uniqueArray(fc.constantFrom('k', 'l', 'm'), { minLength: 1 }),
    remove: fc.boolean(),
  }),
  fc.record({ do: fc.constant('work' as const), records: fc.nat(4), again: fc.nat(2) }),
)

/** The writes in the order of the log, as they were meant. A point that was written since it was read does not expire. */
function meant(log: Message<VectorUpsert>[]): Record<string, Payload> {
  const points = new Map<string, Payload>()
  const at = new Map<string, number>()
  for (const { key, value, headers, offset } of log) {
    if (headers.correction) continue
    const id = key.slice('posts/'.length)
    const current = points.get(id)
    if (headers['payload-change']) {
      const change = basisOf(headers)!.change!
      const changed = current && changedPayload(current, change)
      if (changed && 'json' in changed) points.set(id, JSON.parse(changed.json))
    } else if (headers.basis) {
      if (headers.basis !== `1/${at.get(id)}`) continue
      points.delete(id)
    } else if (value) points.set(id, JSON.parse(value.payload))
    else points.delete(id)
    at.set(id, offset)
  }
  return Object.fromEntries(points)
}

describe('records that were made from what a point held', () => {
  it('end as the writes in order say, whatever comes in between, once or twice', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 40 }), async (steps) => {
        const one = world()
        let n = 0
        for (const step of steps) {
          n++
          if (step.do === 'work') await one.work(step.records, step)
          else if (step.do === 'upsert') one.upsert(step.id, { k: n, own: n })
          else if (step.do === 'delete') one.append(step.id, null)
          else if (step.do === 'expire') one.expire(step.id)
          else if (step.do === 'change') {
            const set = step.remove ? {} : Object.fromEntries(step.keys.map((key) => [key, n]))
            one.change(step.id, { set, remove: step.remove ? step.keys : [] })
          }
        }
        await one.settle()
        expect(compacted(one.log)).toEqual(payloadsOf(one.live))
        // A new engine that reads all of it holds the same.
        const again = engine()
        await handlerOf(again, 1, () => {})(one.log)
        expect(payloadsOf(again)).toEqual(payloadsOf(one.live))
        if (!steps.some(({ do: what }) => what === 'expire')) {
          expect(payloadsOf(one.live)).toEqual(meant(one.log))
        }
      }),
      { numRuns: 1_000 },
    )
  })

  it('a deletion of an expired point leaves one that was written since it was read', async () => {
    const one = world()
    one.upsert('a', { n: 1 })
    one.upsert('b', { n: 1 })
    await one.settle()
    one.upsert('a', { n: 2 })
    one.expire('a')
    one.expire('b')
    await one.settle()
    expect(payloadsOf(one.live)).toEqual({ a: { n: 2 } })
    expect(compacted(one.log)).toEqual({ a: { n: 2 } })
  })

  it('a change that is too much is refused with the name of the point, which keeps its payload', async () => {
    const one = world()
    one.upsert('a', { long: 'x'.repeat(40_000) })
    one.upsert('b', { n: 1 })
    await one.settle()
    one.change('a', { set: { more: 'y'.repeat(40_000) }, remove: [] })
    one.change('b', { set: { m: 2 }, remove: ['n'] })
    const outcomes = await one.work(2)
    expect(outcomes).toEqual([
      { kind: 'park', reason: expect.stringMatching(/^point a: .*65,536 bytes/) },
      done,
    ])
    await one.settle()
    expect(payloadsOf(one.live)).toEqual({ a: { long: 'x'.repeat(40_000) }, b: { m: 2 } })
    expect(compacted(one.log)).toEqual(payloadsOf(one.live))
  })

  it('a change on a point that was made longer meanwhile is refused, and the log keeps the longer one', async () => {
    const one = world()
    one.upsert('a', { n: 1 })
    await one.settle()
    one.upsert('a', { long: 'x'.repeat(40_000) })
    one.change('a', { set: { more: 'y'.repeat(40_000) }, remove: [] })
    await one.settle()
    expect(payloadsOf(one.live)).toEqual({ a: { long: 'x'.repeat(40_000) } })
    expect(compacted(one.log)).toEqual(payloadsOf(one.live))
  })

  it('in a log that was copied into another epoch the points come out the same', async () => {
    const one = world()
    one.upsert('a', { n: 1 })
    await one.settle()
    one.upsert('a', { n: 2 })
    one.change('a', { set: { m: 1 }, remove: [] })
    one.change('a', { set: { k: 1 }, remove: ['n'] })
    await one.settle()
    for (const from of [0, 1, 2, 3]) {
      const copy = world(2)
      for (const { key, value, headers } of one.log.slice(from))
        copy.append(key.slice('posts/'.length), value, headers)
      await copy.settle()
      expect(payloadsOf(copy.live)).toEqual({ a: { m: 1, k: 1 } })
      expect(compacted(copy.log)).toEqual({ a: { m: 1, k: 1 } })
      expect(
        [...copy.live.held.values()].every(
          ({ position }) => comparePositions(position!, { epoch: 2, offset: 0 }) >= 0,
        ),
      ).toBe(true)
    }
  })
})
