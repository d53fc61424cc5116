/** Records that do not get through: the alarm, the mark of an operator, and when both go. */

import pino from 'pino'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import { markSkipped, openStuckRecords, readStuck } from '#services/vectors/write/failures.ts'
import { eventually } from '#test/support/eventually.ts'
import { openEmptyRelational, silentLog } from '#test/support/relational.ts'

const metrics = new Registry()
let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational?.close())

function open(group: string, shownAs = () => group) {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const of = { group, epoch: 1 }
  const records = openStuckRecords({ ...of, shownAs, relational, log, metrics })
  onTestFinished(() => records.close())
  const gauge = async () => {
    const { values } = await metrics.getSingleMetric('flotilla_index_stuck_records')!.get()
    return values.find(({ labels }) => labels.group === group)?.value
  }
  return { records, lines, gauge, rows: () => readStuck(relational, of), of }
}

test('a record that fails alone again and again raises an alarm, until it is settled', async () => {
  const { records, lines, gauge, rows } = open('a')
  const record = { partition: 3, offset: 17, key: 'posts/slow' }
  records.failedAlone(record, 'no answer')
  records.failedAlone({ ...record, offset: 18 }, 'no answer')
  for (let n = 0; n < 2; n++) records.failedAlone(record, 'no answer')
  expect(lines).toEqual([])
  records.failedAlone(record, 'no answer')
  expect(lines).toMatchObject([
    { offset: 17, key: 'posts/slow', pass: 'flotilla groups skip a --partition 3 --offset 17' },
  ])
  await eventually('the gauge says so', async () => (await gauge()) === 1)
  expect(await rows()).toMatchObject([{ ...record, reason: 'no answer', skip: false }])
  records.settled(3, 16)
  records.settled(3, 17)
  await eventually('it is over', async () => (await gauge()) === 0)
  expect(await rows()).toEqual([])
})

test('a mark of an operator reaches the writer, and goes with the record', async () => {
  const { records, rows, of } = open('b')
  await markSkipped(relational, of, { partition: 0, offset: 5, key: 'posts/\0' })
  // Sooner than the writer looks by itself.
  await eventually('it is known', () => records.isSkipped(0, 5))
  expect([records.isSkipped(0, 6), records.isSkipped(1, 5)]).toEqual([false, false])
  records.settled(0, 5)
  await eventually('it is forgotten', async () => (await rows()).length === 0)
  await eventually('by the writer, too', () => !records.isSkipped(0, 5))
})

test('its alarms have the name that people know, also when that changes', async () => {
  let name = 'c.rebuild'
  const { records, lines } = open('c.g2', () => name)
  const gauges = async () => {
    const { values } = await metrics.getSingleMetric('flotilla_index_stuck_records')!.get()
    return values
      .filter(({ labels }) => String(labels.group).startsWith('c'))
      .map(({ labels }) => labels.group)
  }
  await eventually('the gauge is there', async () => (await gauges()).join() === 'c.rebuild')
  name = 'c'
  const record = { partition: 0, offset: 1, key: 'posts/slow' }
  for (let n = 0; n < 3; n++) records.failedAlone(record, 'no answer')
  expect(lines).toMatchObject([{ pass: 'flotilla groups skip c --partition 0 --offset 1' }])
  await eventually('the gauge has the new name alone', async () => (await gauges()).join() === 'c')
})
