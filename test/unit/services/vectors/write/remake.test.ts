/** Vectors of texts that another embedder made are made again on their way into a generation. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { done } from '#lib/outcome.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { VectorUpsert } from '#schemas/types.ts'
import { remaking } from '#services/vectors/write/remake.ts'

const context = { signal: new AbortController().signal }
const vectorOf = (n: number) => Buffer.from(new Float32Array(1_536).fill(n).buffer)

function message(offset: number, value: Partial<VectorUpsert> | null): Message<VectorUpsert> {
  const whole = value && {
    vector: vectorOf(1),
    payload: '{}',
    embedder: null,
    making: null,
    expires_at: null,
    ...value,
  }
  // As the codec makes them: a spread leaves out the getters of the class.
  class Read implements Message<VectorUpsert> {
    readonly value = whole
    readonly timestamp = 0
    readonly partition = 0
    readonly offset = offset
    get key() {
      return `posts/p${offset}`
    }
    get headers() {
      return { operation: 'o' }
    }
  }
  return new Read()
}

const stale = (offset: number, text = `text ${offset}`) =>
  message(offset, { payload: JSON.stringify({ text }), embedder: 'old' })

interface Given {
  embed?: (texts: string[]) => Promise<Float32Array[]>
  ping?: () => Promise<void>
  space?: string | null
}

/** Runs the batch through; `taken` is what the writer got of it: first component and embedder. */
async function run(messages: Message<VectorUpsert>[], given: Given = {}) {
  const asked: string[][] = []
  const taken: [number | undefined, string | null | undefined][] = []
  const warned: string[] = []
  const embed = given.embed ?? (async (texts: string[]) => texts.map(() => new Float32Array(1_536).fill(2)))
  const embedder = {
    space: 'new',
    embed(texts: string[]) {
      asked.push(texts)
      return embed(texts)
    },
    ping: given.ping ?? (async () => {}),
  }
  const handle = remaking(
    async (batch: Message<VectorUpsert>[]) => {
      for (const { key, headers, offset } of batch) {
        expect([key, headers.operation]).toEqual([`posts/p${offset}`, 'o'])
      }
      for (const { value } of batch) taken.push([value?.vector.readFloatLE(0), value?.embedder])
      return batch.map(() => done)
    },
    {
      embedder,
      space: given.space === undefined ? 'new' : given.space,
      log: { warn: (_: object, line: string) => void warned.push(line) } as never,
    },
  )
  const outcomes = (await handle(messages, context)).map(({ kind }) => kind)
  return { outcomes, taken, asked, warned }
}

test('only texts of another embedder get a new vector', async () => {
  const messages = [
    stale(0),
    message(1, { payload: '{"text":"x"}' }),
    message(2, { payload: '{"text":"x"}', embedder: 'new' }),
    message(3, { payload: '{"title":"a note"}', embedder: 'old' }),
    message(4, { payload: '{"text":7}', embedder: 'old' }),
    message(5, { payload: '{', embedder: 'old' }),
    message(6, null),
    stale(7),
  ]
  const { outcomes, taken, asked } = await run(messages)
  expect(asked).toEqual([['text 0', 'text 7']])
  expect(taken.map((one) => one.join())).toEqual([
    '2,new',
    '1,',
    '1,new',
    '1,old',
    '1,old',
    '1,old',
    ',',
    '2,new',
  ])
  expect(new Set(outcomes)).toEqual(new Set(['done']))
})

test('a generation without an embedder, or with another than that of the process, takes vectors as they are', async () => {
  expect((await run([stale(0)], { space: null })).taken).toEqual([[1, 'old']])
  const other = await run([stale(0)], { space: 'elsewhere' })
  expect([other.taken, other.warned]).toEqual([[[1, 'old']], ['index.other-embedder']])
})

test('while the embedder is away everything from the first stale record on waits', async () => {
  const embed = async () => {
    throw new AppError('embedder_unavailable', 'The embedder does not answer.')
  }
  const { outcomes, taken } = await run([message(0, {}), stale(1), message(2, {})], { embed })
  expect(outcomes).toEqual(['done', 'unavailable', 'unavailable'])
  expect(taken).toHaveLength(1)
  expect((await run([stale(0)], { embed })).outcomes).toEqual(['unavailable'])
})

const refuse = (bad: (text: string) => boolean) => async (texts: string[]) => {
  if (texts.some(bad)) throw new AppError('invalid_configuration', 'The embedding endpoint answers 400.')
  return texts.map(() => new Float32Array(1_536).fill(2))
}

test('a text that the embedder refuses keeps its vector, the others get theirs, and the log says so once', async () => {
  const messages = Array.from({ length: 9 }, (_, n) => stale(n))
  const { outcomes, taken, warned } = await run(messages, {
    embed: refuse((text) => ['text 3', 'text 8'].includes(text)),
  })
  expect(new Set(outcomes)).toEqual(new Set(['done']))
  expect(taken.flatMap(([component], n) => (component === 1 ? [n] : []))).toEqual([3, 8])
  expect(taken[3]).toEqual([1, 'old'])
  expect(warned).toEqual(['vectors.text-refused'])
})

test('an embedder that refuses everything is away', async () => {
  const away = async () => {
    throw new AppError('invalid_configuration', 'The embedding endpoint answers 401.')
  }
  const { outcomes, taken } = await run([stale(0), stale(1)], { embed: refuse(() => true), ping: away })
  expect([outcomes, taken]).toEqual([['unavailable', 'unavailable'], []])
})

test('many and long texts go in requests that an endpoint takes', async () => {
  const many = await run(Array.from({ length: 130 }, (_, n) => stale(n)))
  expect(many.asked.map(({ length }) => length)).toEqual([64, 64, 2])
  const long = await run(Array.from({ length: 40 }, (_, n) => stale(n, 'x'.repeat(16_384))))
  expect(long.asked.map(({ length }) => length)).toEqual([16, 16, 8])
  expect(long.taken).toEqual(new Array(40).fill([2, 'new']))
})
