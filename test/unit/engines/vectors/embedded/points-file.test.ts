/** When a transaction of the points is said to be on disk. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openPointsFile } from '#engines/vectors/embedded/points-file.ts'
import { eventually } from '../../../../support/eventually.ts'

const syncs = vi.hoisted(() => [] as ((error: Error | null) => void)[])
vi.mock('node:fs', async (original) => ({
  ...(await original<typeof import('node:fs')>()),
  fdatasync: (_file: number, done: (error: Error | null) => void) => syncs.push(done),
}))

function open() {
  syncs.length = 0
  const directory = mkdtempSync(join(tmpdir(), 'fl-'))
  const file = openPointsFile(directory, ['posts'], 2, () => {})
  onTestFinished(async () => {
    for (const done of syncs) done(null)
    await file.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return file
}

test('it is there once a sync that began behind it has ended; those of the meantime share the next', async () => {
  const file = open()
  const durable: number[] = []
  const commit = (n: number) => void file.transaction(() => {}).durable.then(() => durable.push(n))
  commit(1)
  await eventually('the first sync', () => syncs.length === 1)
  for (const n of [2, 3]) commit(n)
  syncs[0]!(null)
  await eventually('the second sync', () => syncs.length === 2)
  expect(durable).toEqual([1])
  syncs[1]!(null)
  await eventually('all are durable', () => durable.length === 3)
  expect(durable).toEqual([1, 2, 3])
  expect(syncs).toHaveLength(2)
})

test('after a sync that failed none is said to be there', async () => {
  const file = open()
  const first = file.transaction(() => {}).durable
  await eventually('the first sync', () => syncs.length === 1)
  const second = file.transaction(() => {}).durable
  syncs[0]!(new Error('input/output error'))
  for (const one of [first, second, file.transaction(() => {}).durable]) {
    await expect(one).rejects.toThrow('input/output error')
  }
})
