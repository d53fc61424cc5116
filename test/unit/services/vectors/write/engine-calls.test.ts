/** The size of engine calls: smaller after one that took too long, larger again later. */

import { describe, expect, it } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { createEngineCalls, type Pending } from '#services/vectors/write/generation-writer.ts'

const { signal } = new AbortController()
const away = () => new AppError('vector_engine_unavailable', 'no answer')

const batchOf = (count: number): Pending<number>[] =>
  Array.from({ length: count }, (_, n) => ({ index: n, offset: n, key: `posts/${n}`, operation: n }))

/** An engine that never answers for some records; writes down how many records each call had. */
function engineOf(hangsFor: (operation: number) => boolean, { budgetMs = 60_000 } = {}) {
  const failedAlone: number[] = []
  const stuck = { failedAlone: ({ offset }: { offset: number }) => void failedAlone.push(offset) }
  const calls = createEngineCalls({ recordsMax: 16, budgetMs, stuck })
  const sizes: number[] = []
  const alone: boolean[] = []
  return {
    failedAlone,
    sizes,
    alone,
    write: (pending: Pending<number>[], partition = 0) =>
      calls.write(pending, { partition, signal }, async (some, isAlone) => {
        sizes.push(some.length)
        alone.push(isAlone)
        if (some.some(({ operation }) => hangsFor(operation))) throw away()
      }),
  }
}

describe('calls that take too long', () => {
  it('are repeated with half as many records, down to one, and what works counts', async () => {
    const engine = engineOf((operation) => operation === 11)
    let left = batchOf(16)
    const written: number[] = []
    for (let n = 0; n < 6; n++) {
      const end = await engine.write(left)
      written.push(...left.slice(0, end.written).map(({ operation }) => operation))
      left = left.slice(end.written)
    }
    expect(engine.sizes).toEqual([16, 8, 8, 4, 2, 2, 1, 1, 1])
    expect(written).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(left[0]).toMatchObject({ operation: 11 })
    // It was alone once or twice, and is reported each time.
    expect(new Set(engine.failedAlone)).toEqual(new Set([11]))
  })

  it('stay with their partition: those of others go on as before, joined', async () => {
    const engine = engineOf((operation) => operation === 3)
    await engine.write(batchOf(16))
    await engine.write(batchOf(3))
    const other = batchOf(16).filter(({ operation }) => operation !== 3)
    await engine.write(other, 1)
    expect(engine.alone).toEqual([false, true, false])
    expect(engine.sizes.at(-1)).toBe(15)
  })

  it('grow again while they work, until they are joined with others again', async () => {
    let hangs = true
    const engine = engineOf(() => hangs)
    await engine.write(batchOf(16))
    await engine.write(batchOf(8))
    hangs = false
    for (let n = 0; n < 40; n++) await engine.write(batchOf(16))
    expect(engine.sizes.slice(0, 3)).toEqual([16, 8, 4])
    expect(engine.sizes.at(-1)).toBe(16)
    expect(engine.alone.at(-1)).toBe(false)
  })

  it('do not run beyond the time of one handler call: the rest follows', async () => {
    const engine = engineOf((operation) => operation > 7, { budgetMs: -1 })
    await engine.write(batchOf(16))
    const end = await engine.write(batchOf(8))
    expect(end).toMatchObject({ written: 8, fault: null })
    const next = await engine.write(batchOf(7).concat(batchOf(7)))
    expect(next).toMatchObject({ written: 8, fault: { code: 'overloaded' } })
  })

  it('stay as they are when the engine refuses the records', async () => {
    const refused = new AppError('validation_failed', 'not this one')
    const calls = createEngineCalls({ recordsMax: 16, budgetMs: 1_000, stuck: { failedAlone() {} } })
    const sizes: number[] = []
    for (let n = 0; n < 2; n++) {
      const end = await calls.write(batchOf(16), { partition: 0, signal }, async (some) => {
        sizes.push(some.length)
        throw refused
      })
      expect(end).toEqual({ written: 0, fault: refused })
    }
    expect(sizes).toEqual([16, 16])
  })
})
