/** The lags that are sampled again and again: the groups are read once, and again when a generation changes. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { openGroupLags } from '#operations/lag.ts'
import { noticeOn } from '#runtime/notices.ts'
import { openControlPlane } from '../../support/control-plane.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
})
afterAll(() => relational.close())

test('a sample asks the database for nothing, and a new generation is in the next one', async () => {
  let asked = 0
  const counted: Relational = {
    ...relational,
    query(text, params) {
      asked++
      return relational.query(text, params)
    },
  }
  // Every group has read all but one record of one partition.
  const since: number[] = []
  const eventLog: Pick<EventLog, 'groupPositions'> = {
    groupPositions: async (groups, earlier = []) => {
      since.push(earlier.length)
      return groups.map(({ group, topic }) => ({
        group,
        topic,
        committed: [{ partition: 0, offset: 9, metadata: '' }],
        ranges: [{ partition: 0, start: 0, end: 10 }],
      }))
    },
  }
  const lags = openGroupLags({
    engines: { eventLog: eventLog as EventLog, relational: counted },
    locations: new Map(),
    log: silentLog,
  })
  const groups = async () => (await lags.read()).map(({ group }) => group)
  // Hearing that it listens makes it read once more.
  await eventually('the groups are known', async () => {
    const before = asked
    const read = await lags.read()
    return read.length > 0 && read.every(({ lag }) => lag === 1) && asked === before
  })
  expect(await groups()).not.toContain('vector-writer.rebuild')
  await relational.query(
    `insert into platform.index_generations (index_name, generation, state)
     values ('vectors', 1, 'live'), ('vectors', 2, 'building') returning ${noticeOn('flotilla_index_generations')}`,
  )
  await eventually('the rebuild is seen', async () => (await groups()).includes('vector-writer.rebuild'))
  // Five readings of six go on from the one before.
  const next = async () => {
    await lags.read()
    return since.at(-1)! > 0
  }
  const goneOn: boolean[] = []
  for (let n = 0; n < 6; n++) goneOn.push(await next())
  expect(goneOn.filter((goesOn) => goesOn)).toHaveLength(5)
  await lags.close()
})
