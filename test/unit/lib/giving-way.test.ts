/** Long work leaves the event loop to others, and several such works take turns. */

import { expect, test } from 'vitest'
import { spendTurn } from '#lib/giving-way.ts'

const piece = 100 * 1024

async function work(pieces: number, after: (piece: number) => void): Promise<void> {
  for (let n = 0; n < pieces; n++) {
    after(n)
    await spendTurn(piece)
  }
}

test('others come in between, however long the work is', async () => {
  let turns = 0
  let isOver = false
  function count(): void {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  await work(50, () => {})
  isOver = true
  // Three pieces fill a turn.
  expect(turns).toBeGreaterThanOrEqual(10)
})

test('one turn is for all: works that begin together go on one after the other', async () => {
  const done: string[] = []
  const perTurn: number[] = []
  let isOver = false
  function count(): void {
    perTurn.push(done.length)
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  await Promise.all(['a', 'b', 'c', 'd'].map((name) => work(30, () => done.push(name))))
  isOver = true
  const most = Math.max(...perTurn.slice(1).map((count, i) => count - perTurn[i]!))
  // Each may begin once, and then only one of them has a turn.
  expect(most).toBeLessThanOrEqual(8)
  // None is through before another has begun its second half.
  expect(done.lastIndexOf('a')).toBeGreaterThan(done.indexOf('d') + 15)
})

test('little work never waits', () => {
  expect(spendTurn(10)).toBeUndefined()
})
