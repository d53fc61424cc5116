/** The answers of a batch as one text, and how many of its searches run at a time. */

import { expect, test } from 'vitest'
import type { Hit } from '#engines/vectors/port.ts'
import { answerTexts, mapFew } from '#services/vectors/gateway/routes/search-batch.ts'

const hitsOf = (...ids: string[]): Hit[] => ids.map((id) => ({ id, score: 0.5 }))

/** The answers to one search for each list of hits; the engine has the points of `present`. */
async function written(lists: Hit[][], { filled, present }: { filled: number; present: string[] }) {
  const get = async (_: string, ids: string[]) =>
    ids
      .filter((id) => present.includes(id))
      .map((id) => ({ id, vector: new Float32Array([1]), payload: { of: id } }))
  const found = lists.map((hits, n) => ({
    ...{ name: 'posts', stored: 'posts', question: 'x', after: undefined },
    query: { limit: 100, withPayload: true, withVector: false },
    result: { hits, filled: Math.min(filled, hits.length), eligible: n },
    figures: { took_ms: n, records_scanned: n },
  }))
  const texts: string[] = []
  for await (const some of answerTexts({ get }, found)) texts.push(...some)
  return JSON.parse(`[${texts.join(',')}]`) as { results: { id: string }[]; records_scanned: number }[]
}

test.each([
  ['all hits are filled', 9, ['a', 'b', 'c', 'd'], [['a', 'b', 'c'], [], ['d']]],
  ['no hit is filled', 0, ['a', 'b', 'c', 'd'], [['a', 'b', 'c'], [], ['d']]],
  ['points of the last hits are gone', 1, ['a'], [['a'], [], ['d']]],
  ['points of the first hits are gone', 0, ['c', 'd'], [['c'], [], ['d']]],
  ['all points are gone', 0, [], [[], [], []]],
])('answers are whole where %s', async (_what, filled, present, ids) => {
  const answers = await written([hitsOf('a', 'b', 'c'), [], hitsOf('d')], { filled, present })
  expect(answers.map(({ results }) => results.map(({ id }) => id))).toEqual(ids)
  expect(answers.map(({ records_scanned }) => records_scanned)).toEqual([0, 1, 2])
})

test('hits of several pieces come in order', async () => {
  const ids = Array.from({ length: 50 }, (_, n) => `p${n}`)
  const present = ids.filter((_, n) => n < 10 || n > 40)
  const [first, second] = await written([hitsOf(...ids), hitsOf('p3')], { filled: 2, present })
  expect(first!.results.map(({ id }) => id)).toEqual(present)
  expect(first!.results[2]).toEqual({ id: 'p2', score: 0.5, payload: { of: 'p2' } })
  expect(second!.results).toEqual([{ id: 'p3', score: 0.5 }])
})

test('four run at a time, results keep their order, and none begins after a failure', async () => {
  let running = 0
  let most = 0
  const begun: number[] = []
  const run = async (n: number) => {
    begun.push(n)
    most = Math.max(most, ++running)
    await new Promise((resolve) => setTimeout(resolve, 10 - (n % 4)))
    running--
    if (n === -1) throw new Error('away')
    return n * 2
  }
  const numbers = Array.from({ length: 10 }, (_, n) => n)
  expect(await mapFew(numbers, run)).toEqual(numbers.map((n) => n * 2))
  expect(most).toBe(4)
  begun.length = 0
  await expect(mapFew([-1, -1, -1, -1, ...numbers], run)).rejects.toThrow('away')
  await new Promise((resolve) => setTimeout(resolve, 30))
  expect(begun).toEqual([-1, -1, -1, -1])
})
