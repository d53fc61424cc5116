/** The vector-writer's handler: what reaches the engine, and what becomes of each record. */

import { describe, expect, it } from 'vitest'
import type { PointOperation, VectorStore } from '#engines/vectors/port.ts'
import { AppError } from '#lib/errors.ts'
import { done, park } from '#lib/outcome.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { skippedReason } from '#services/vectors/write/failures.ts'
import { createEngineCalls } from '#services/vectors/write/generation-writer.ts'
import { createHandler, joinApplies } from '#services/vectors/write/handler.ts'
import { handleBatch } from '#test/support/consumer-handle-batch.ts'
import { theFourAlone } from '../../../../support/collections.ts'
import { nothingBased } from '../../../../support/nothing-based.ts'

const { signal } = new AbortController()
const context = { signal, partition: 0 }
const passesAll = { isSkipped: () => false, failedAlone() {} }

function handlerOf(apply: VectorStore['apply'], generation: number) {
  const calls = createEngineCalls({ recordsMax: 500, budgetMs: 1_000, stuck: passesAll })
  return createHandler({
    applyPoints: joinApplies(apply, generation),
    epoch: 1,
    calls,
    stuck: passesAll,
    collections: theFourAlone,
    based: nothingBased,
  })
}

function vectorBytes(first = 1): Buffer {
  const floats = new Float32Array(1536)
  floats[0] = first
  return Buffer.from(floats.buffer)
}

/** At an odd byteOffset, as decoded Avro bytes may be. */
function oddly(bytes: Buffer): Buffer {
  const slab = Buffer.alloc(bytes.length + 1)
  bytes.copy(slab, 1)
  return slab.subarray(1)
}

let nextOffset = 0
function message(key: string, value: VectorUpsert | null): Message<VectorUpsert> {
  return { key, value, partition: 0, offset: nextOffset++, headers: {}, timestamp: 0 }
}

function upsert(key: string, payload = '{}', vector = vectorBytes()): Message<VectorUpsert> {
  return message(key, { vector, payload, embedder: null, making: null, expires_at: null })
}

/** An engine that refuses chosen payloads for good, and vectors as every engine does, or is away. */
function engine(options: { refuses?: string; away?: () => boolean } = {}) {
  const calls: { collection: string; operations: PointOperation[]; generation: number | undefined }[] = []
  const points = new Map<string, unknown>()
  return {
    calls,
    points,
    async apply(
      collection: string,
      operations: PointOperation[],
      { generation }: { generation?: number } = {},
    ) {
      calls.push({ collection, operations, generation })
      if (options.away?.()) throw new AppError('vector_engine_unavailable', 'away')
      const upserts = operations.filter((one) => one.kind === 'upsert')
      const bad = options.refuses && upserts.some((one) => one.payload.title === options.refuses)
      const odd = upserts.some((one) => !one.vector.every(Number.isFinite))
      if (bad || odd) throw new AppError('validation_failed', 'not this one')
      for (const one of operations) {
        if (one.kind === 'delete') points.delete(`${collection}/${one.id}`)
        else points.set(`${collection}/${one.id}`, one.payload)
      }
    },
  }
}

describe('the vector-writer handler', () => {
  it('makes one call for each collection, in the generation that it writes, with the last operation of a point', async () => {
    const vectors = engine()
    const handle = handlerOf(vectors.apply, 3)
    const outcomes = await handle(
      [
        upsert('posts/a', '{"title":"old"}'),
        upsert('knowledgebase/a'),
        upsert('posts/a', '{"title":"new"}'),
        upsert('posts/gone'),
        message('posts/gone', null),
      ],
      context,
    )
    expect(outcomes).toEqual([done, done, done, done, done])
    expect(vectors.calls.map((call) => [call.collection, call.operations.length, call.generation])).toEqual([
      ['posts', 2, 3],
      ['knowledgebase', 1, 3],
    ])
    expect([...vectors.points]).toEqual([
      ['posts/a', { title: 'new' }],
      ['knowledgebase/a', {}],
    ])
  })

  it('reads vectors at any byte offset, and payload keys that mean something to JavaScript', async () => {
    const vectors = engine()
    const handle = handlerOf(vectors.apply, 1)
    await handle([upsert('posts/x/y', '{"__proto__":1,"":2}', oddly(vectorBytes(0.5)))], context)
    const operation = vectors.calls[0]!.operations[0]!
    expect(operation).toMatchObject({ kind: 'upsert', id: 'x/y' })
    if (operation.kind === 'upsert') {
      expect(operation.vector[0]).toBe(0.5)
      expect(JSON.stringify(operation.payload)).toBe('{"__proto__":1,"":2}')
    }
  })

  it('parks what can never be a point and goes on with the rest', async () => {
    const vectors = engine()
    const handle = handlerOf(vectors.apply, 1)
    const messages = [
      upsert('no-slash'),
      upsert('strangers/a'),
      upsert('posts/short', '{}', Buffer.alloc(12)),
      upsert('posts/nan', '{}', vectorBytes(Number.NaN)),
      upsert('posts/list', '[]'),
      upsert('posts/good'),
    ]
    const outcomes = await handleBatch((some) => handle(some, context), messages)
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(['park', 'park', 'park', 'park', 'park', 'done'])
    expect(outcomes[2]).toEqual(park('the vector has 12 bytes instead of 6144'))
    expect([...vectors.points.keys()]).toEqual(['posts/good'])
  })

  it('halves a refused call until the bad record is alone', async () => {
    const vectors = engine({ refuses: 'bad' })
    const handle = handlerOf(vectors.apply, 1)
    const messages = Array.from({ length: 9 }, (_, i) =>
      upsert(`posts/${i}`, i === 6 ? '{"title":"bad"}' : '{}'),
    )
    const outcomes = await handleBatch((some) => handle(some, context), messages)
    expect(outcomes.map((outcome) => outcome.kind === 'park')).toEqual(messages.map((_, i) => i === 6))
    expect(vectors.points.size).toBe(8)
  })

  it('leaves a point as the operation before a refused one had it', async () => {
    const vectors = engine({ refuses: 'bad' })
    const handle = handlerOf(vectors.apply, 1)
    const outcomes = await handleBatch(
      (some) => handle(some, context),
      [upsert('posts/a', '{"title":"good"}'), upsert('posts/a', '{"title":"bad"}'), upsert('posts/b')],
    )
    expect(outcomes).toEqual([done, park('not this one'), done])
    expect(vectors.points.get('posts/a')).toEqual({ title: 'good' })
  })

  it('says that the engine is away instead of parking anything', async () => {
    const handle = handlerOf(engine({ away: () => true }).apply, 1)
    const outcomes = await handle([upsert('posts/a'), upsert('bad'), upsert('posts/b')], context)
    expect(outcomes.map((outcome) => outcome.kind)).toEqual(['unavailable', 'park', 'unavailable'])
  })
})

describe('batches of several partitions', () => {
  const batch = (partition: number, payload = '{}') =>
    Array.from({ length: 3 }, (_, i) => upsert(`posts/${partition}-${i}`, i === 1 ? payload : '{}'))

  it('that come together are written by one call', async () => {
    const vectors = engine()
    const handle = handlerOf(vectors.apply, 2)
    const outcomes = await Promise.all([batch(0), batch(1), batch(2)].map((each) => handle(each, context)))
    expect(outcomes).toEqual([0, 1, 2].map(() => [done, done, done]))
    expect(vectors.calls.map((call) => [call.operations.length, call.generation])).toEqual([[9, 2]])
  })

  it('get only their own faults: a record that the engine refuses parks nothing of another batch', async () => {
    const vectors = engine({ refuses: 'bad' })
    const handle = handlerOf(vectors.apply, 1)
    const outcomes = await Promise.all(
      [batch(0), batch(1, '{"title":"bad"}'), batch(2)].map((each) =>
        handleBatch((some) => handle(some, context), each),
      ),
    )
    expect(outcomes).toEqual([
      [done, done, done],
      [done, park('not this one'), done],
      [done, done, done],
    ])
    expect(vectors.points.size).toBe(8)
  })

  it('are all unavailable when the engine is away', async () => {
    const handle = handlerOf(engine({ away: () => true }).apply, 1)
    const outcomes = await Promise.all([batch(0), batch(1)].map((each) => handle(each, context)))
    expect(outcomes.flat().map((outcome) => outcome.kind)).toEqual(new Array(6).fill('unavailable'))
  })

  it('go into several calls when they are too many for one', async () => {
    const vectors = engine()
    const apply = joinApplies(vectors.apply, 1)
    const operations = (from: number): PointOperation[] =>
      Array.from({ length: 900 }, (_, i) => ({
        kind: 'delete',
        id: `p${from + i}`,
        position: { epoch: 1, offset: from + i },
      }))
    await Promise.all([0, 900, 1_800].map((from) => apply('posts', operations(from), { signal })))
    expect(vectors.calls.map((call) => call.operations.length)).toEqual([1_800, 900])
  })
})

describe('calls that are given up', () => {
  /** An engine whose calls end when they are aborted, and not before. */
  function hanging() {
    const aborted: string[][] = []
    let calls = 0
    const apply: VectorStore['apply'] = (_, operations, { signal: given } = {}) => {
      calls++
      return new Promise((_, reject) => {
        given?.addEventListener('abort', () => {
          aborted.push(operations.map(({ id }) => id))
          reject(new AppError('vector_engine_unavailable', 'aborted'))
        })
      })
    }
    return { apply, aborted, calls: () => calls }
  }
  const started = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

  it('end at once for their partition; that of the engine when no partition waits any more', async () => {
    const { apply, aborted } = hanging()
    const handle = handlerOf(apply, 1)
    const [one, two] = [new AbortController(), new AbortController()]
    const first = handle([upsert('posts/a')], { signal: one.signal, partition: 0 })
    const second = handle([upsert('posts/b')], { signal: two.signal, partition: 1 })
    await started()
    one.abort()
    expect(await first).toMatchObject([{ kind: 'unavailable' }])
    expect(aborted).toEqual([])
    two.abort()
    expect(await second).toMatchObject([{ kind: 'unavailable' }])
    expect(aborted).toEqual([['a', 'b']])
  })

  it('never reach the engine when they were given up before', async () => {
    const { apply, calls } = hanging()
    const handle = handlerOf(apply, 1)
    const gone = new AbortController()
    const handled = handle([upsert('posts/a')], { signal: gone.signal, partition: 0 })
    gone.abort()
    expect(await handled).toMatchObject([{ kind: 'unavailable' }])
    await started()
    expect(calls()).toBe(0)
  })
})

it('parks the record that an operator passes, and writes the others', async () => {
  const vectors = engine()
  const messages = [upsert('posts/a'), upsert('posts/b'), upsert('posts/c')]
  const stuck = { isSkipped: (_: number, offset: number) => offset === messages[1]!.offset }
  const calls = createEngineCalls({ recordsMax: 500, budgetMs: 1_000, stuck: passesAll })
  const collections = theFourAlone
  const parts = {
    applyPoints: joinApplies(vectors.apply, 1),
    epoch: 1,
    calls,
    stuck,
    collections,
    based: nothingBased,
  }
  const outcomes = await createHandler(parts)(messages, context)
  expect(outcomes).toEqual([done, park(skippedReason), done])
  expect([...vectors.points.keys()]).toEqual(['posts/a', 'posts/c'])
})

it('answers done for records written before a call that never ended, also for those a later write replaced', async () => {
  const vectors = engine({ away: () => vectors.calls.at(-1)!.operations.some(({ id }) => id === 'slow') })
  const handle = handlerOf(vectors.apply, 1)
  const messages = [upsert('posts/a'), upsert('posts/a'), upsert('posts/b'), upsert('posts/slow')]
  const kinds = async () => (await handle(messages, context)).map(({ kind }) => kind)
  expect(new Set(await kinds())).toEqual(new Set(['unavailable']))
  expect(await kinds()).toEqual(['done', 'done', 'done', 'unavailable'])
})
