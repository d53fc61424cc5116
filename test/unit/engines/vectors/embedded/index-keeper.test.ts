/** An index that fails is replaced: searches go on from the table, nothing is lost. */

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { createIndexKeeper, type OpenIndex } from '#engines/vectors/embedded/index-keeper.ts'
import { createRamIndex } from '#engines/vectors/embedded/neighbour-index.ts'
import { makePointsTables, openPointsTable } from '#engines/vectors/embedded/points-table.ts'
import { sleep } from '#lib/backoff.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { nextPosition, vectorOf } from '#test/support/vectors.ts'

const dimension = 8

function setUp() {
  const path = join(temporaryFolder(), 'points.db')
  const writer = new DatabaseSync(path)
  writer.exec('pragma journal_mode = wal')
  makePointsTables(writer, 'a_1')
  const table = openPointsTable(writer, new DatabaseSync(path), 'a_1')
  const made: { broken: boolean; discarded: boolean }[] = []
  const create = (): OpenIndex => {
    const state = { broken: false, discarded: false }
    made.push(state)
    const ram = createRamIndex(dimension)
    const guard = <A extends unknown[], R>(work: (...args: A) => R) => {
      return (...args: A): R => {
        if (state.broken) throw new Error('native fault')
        return work(...args)
      }
    }
    const index = { ...ram, upsert: guard(ram.upsert), search: guard(ram.search) }
    return {
      index,
      discard: () => {
        state.discarded = true
      },
    }
  }
  /** As the real one: the points of the beginning, and some time. */
  const merge = async (): Promise<OpenIndex> => {
    const opened = create()
    for (const row of table.rowsAfter(0, 1000)) opened.index.upsert([{ ...row, tokens: [] }])
    await sleep(20)
    return opened
  }
  const logged: string[] = []
  const log = (_: string, message: string) => void logged.push(message)
  const keeper = createIndexKeeper({ name: 'a-1', table, create, merge, opened: create(), log })
  const put = (id: string, ...head: number[]) => {
    const { changes } = table.write([
      {
        id,
        position: nextPosition(),
        payload: '{}',
        vector: vectorOf(dimension, ...head),
        embedder: null,
        expiresAt: null,
      },
    ])
    keeper.follow(changes)
    return changes[0]!.n
  }
  const search = (...head: number[]) =>
    keeper.search({
      vector: vectorOf(dimension, ...head),
      limit: 3,
      tokens: { all: [], none: [] },
      matching: () => [],
    })
  return { keeper, made, logged, put, search, table }
}

describe('the keeper of an index', () => {
  test('an index that fails in a write is dropped and built again from the table', async () => {
    const { keeper, made, logged, put, search } = setUp()
    const first = put('a', 1)
    made[0]!.broken = true
    const second = put('b', 0, 1)
    expect(keeper.stats().status).toBe('rebuilding')
    expect(search(1)).toBeUndefined()
    expect(made[0]!.discarded).toBe(true)
    await eventually('the index is there again', () => keeper.stats().status === 'ready')
    expect(search(0, 1)).toEqual([second, first])
    expect(logged).toContain('vectors.index-dropped')
  })

  test('an index that fails in a search is dropped, and the search has to scan', async () => {
    const { keeper, made, put, search } = setUp()
    const n = put('a', 1)
    made[0]!.broken = true
    expect(search(1)).toBeUndefined()
    await eventually('the index is there again', () => keeper.stats().status === 'ready')
    expect(search(1)).toEqual([n])
  })

  test('writes and deletions during a build are in the index', async () => {
    const { keeper, put, search, table } = setUp()
    for (let i = 0; i < 100; i++) put(`p${i}`, 1, i)
    const rebuilt = keeper.rebuild()
    const late = put('late', 0, 0, 1)
    const { changes } = table.write([
      { id: 'p0', position: nextPosition(), payload: null, vector: null, embedder: null, expiresAt: null },
    ])
    keeper.follow(changes)
    await rebuilt
    expect(search(0, 0, 1)![0]).toBe(late)
    expect(search(1)).not.toContain(changes[0]!.n)
  })

  test('writes and deletions during a merge are in the index that replaces it', async () => {
    const { keeper, made, put, search, table } = setUp()
    for (let i = 0; i < 50; i++) put(`p${i}`, 1, i)
    const merged = keeper.merge(new AbortController().signal)
    expect(keeper.stats().status).toBe('indexing')
    const late = put('late', 0, 0, 1)
    const moved = put('p1', 0, 0, 0, 1)
    const { changes } = table.write([
      { id: 'p0', position: nextPosition(), payload: null, vector: null, embedder: null, expiresAt: null },
    ])
    keeper.follow(changes)
    expect(await merged).toBe(true)
    expect(made.map((each) => each.discarded)).toEqual([true, false])
    expect(search(0, 0, 1)![0]).toBe(late)
    expect(search(0, 0, 0, 1)![0]).toBe(moved)
    expect(search(1)).not.toContain(changes[0]!.n)
  })

  test('a merge that ends after its index was dropped replaces no other index', async () => {
    const { keeper, made, put, search } = setUp()
    const n = put('a', 1)
    const merged = keeper.merge(new AbortController().signal)
    made[0]!.broken = true
    expect(search(1)).toBeUndefined()
    expect(await merged).toBe(false)
    await eventually('the index is there again', () => keeper.stats().status === 'ready')
    expect(search(1)).toEqual([n])
  })
})
