/** Pages of small rows end by bytes as well as by rows, and read some rows at a time. */

import { expect, test } from 'vitest'
import { pageBytesMax } from '#runtime/http/answers.ts'
import { sizedPage } from '#runtime/http/paging.ts'

interface Row {
  id: number
  text: string
}

function tableOf(count: number, bytes: number) {
  const rows: Row[] = Array.from({ length: count }, (_, id) => ({ id, text: '"'.repeat(bytes / 2) }))
  let most = 0
  const read = async (limit: number, last: Row | undefined) => {
    most = Math.max(most, limit)
    const from = last === undefined ? 0 : last.id + 1
    return rows.slice(from, from + limit)
  }
  return { read, mostRead: () => most }
}

test('a page has its limit, and knows whether there are more', async () => {
  const { read, mostRead } = tableOf(250, 10)
  for (const [limit, isLast] of [
    [1, false],
    [100, false],
    [249, false],
    [250, true],
    [1_000, true],
  ] as const) {
    const page = await sizedPage(limit, read)
    expect([page.rows.map(({ id }) => id), page.isLast]).toEqual([
      Array.from({ length: Math.min(limit, 250) }, (_, id) => id),
      isLast,
    ])
  }
  expect(mostRead()).toBeLessThan(110)
  expect(await sizedPage(10, async () => [])).toEqual({ rows: [], isLast: true })
})

test('a page of large rows ends by bytes, and pages behind each other have each row once', async () => {
  const { read } = tableOf(300, 50_000)
  const seen: number[] = []
  let last: Row | undefined
  for (let isLast = false; !isLast; ) {
    const page = await sizedPage<Row>(1_000, (limit, row) => read(limit, row ?? last))
    expect(JSON.stringify(page.rows).length).toBeLessThanOrEqual(pageBytesMax)
    seen.push(...page.rows.map(({ id }) => id))
    last = page.rows.at(-1)
    isLast = page.isLast
  }
  expect(seen).toEqual(Array.from({ length: 300 }, (_, id) => id))
})

test('a row that is larger than a page comes alone', async () => {
  const { read } = tableOf(3, 2 * pageBytesMax)
  expect((await sizedPage(10, read)).rows.map(({ id }) => id)).toEqual([0])
})
