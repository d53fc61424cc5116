/** `find` searches the local index and asks the gateway only for what it names. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { buildIndex } from '../../stidx/src/build.ts'
import * as localSearch from '../../stidx/src/index-file.ts'
import { find, type LocalSearch } from '../src/find.ts'

// The client's interface of local search fits local search: checked by the compiler.
localSearch satisfies LocalSearch

function indexOf(records: object[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'client-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const input = join(folder, 'records.jsonl')
  const output = join(folder, 'index.stidx')
  writeFileSync(input, records.map((record) => `${JSON.stringify(record)}\n`).join(''))
  buildIndex({ input, output })
  return output
}

test('one call a collection, points next to their hits, and what the gateway has no more', async () => {
  const index = indexOf([
    { id: 'a', title: 'blue whale', collection: 'sea' },
    { id: 'b', title: 'blue sky', collection: 'air' },
    { id: 'c', title: 'blue boat', collection: 'sea' },
    { id: 'd', title: 'blue and nowhere' },
  ])
  const asked: [string, string[]][] = []
  const { results, missing, total } = await find('blue', { index }, async (collection, ids) => {
    asked.push([collection, ids.toSorted()])
    const known = ids.filter((id) => id !== 'c')
    return {
      points: known.map((id) => ({ id, vector: [], payload: { of: id } })),
      missing: ids.filter((id) => id === 'c'),
    }
  })
  expect(total).toBe(4)
  expect(asked.toSorted()).toEqual([
    ['air', ['b']],
    ['sea', ['a', 'c']],
  ])
  expect(missing).toEqual(['c'])
  expect(Object.fromEntries(results.map(({ id, point }) => [id, point?.payload]))).toEqual({
    a: { of: 'a' },
    b: { of: 'b' },
    c: undefined,
    d: undefined,
  })
})

test('fetch: 0 asks the gateway nothing, and without an index there is nothing to search', async () => {
  const index = indexOf([{ id: 'a', title: 'blue', collection: 'sea' }])
  const never = () => Promise.reject(new Error('asked'))
  expect((await find('blue', { index, fetch: 0 }, never)).results).toHaveLength(1)
  await expect(find('blue', {}, never)).rejects.toThrow(TypeError)
})
