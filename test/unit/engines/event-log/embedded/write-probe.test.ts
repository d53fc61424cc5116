/** What a ping of the log says of writes: the truth, also while nobody writes. */

import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createWriteProbe, openForWriting } from '#engines/event-log/embedded/log-file.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

const plenty = 1024 ** 4
let db: DatabaseSync
beforeEach(() => {
  db = openForWriting(join(temporaryFolder(), 'log.sqlite'))
})
afterEach(() => db.close())

/** As on a full disk: the file cannot grow. */
function fill(): void {
  const { page_count } = db.prepare('pragma page_count').get() as { page_count: number }
  db.exec(`pragma max_page_count = ${page_count}`)
}
const makeRoom = () => db.exec('pragma max_page_count = 100000')
const writes = () => db.prepare('select total_changes() as n').get()?.n

test('while writes get through and there is room, nothing is written', () => {
  const probe = createWriteProbe(db, () => plenty)
  probe.watch(10, () => db.exec(`insert into meta values ('a', 'b')`))
  const before = writes()
  probe.check()
  expect(writes()).toBe(before)
})

test('with little room a write is tried, and leaves nothing', () => {
  const probe = createWriteProbe(db, () => 1_000_000)
  fill()
  expect(() => probe.check()).toThrow(/full/)
  makeRoom()
  const before = writes()
  probe.check()
  expect(writes()).not.toBe(before)
  expect(db.prepare('select name from meta').all()).toEqual([{ name: 'layout' }])
})

test('after a write that failed a write is tried until one gets through', () => {
  const probe = createWriteProbe(db, () => plenty)
  fill()
  expect(() =>
    probe.watch(200_000, () => db.exec(`insert into meta values ('big', printf('%.*c', 200000, '0'))`)),
  ).toThrow(/full/)
  expect(() => probe.check()).toThrow(/full/)
  expect(() => probe.check()).toThrow(/full/)
  makeRoom()
  probe.check()
  const before = writes()
  probe.check()
  expect(writes()).toBe(before)
})
