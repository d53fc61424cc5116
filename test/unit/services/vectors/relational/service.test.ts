/** When an embedded mirror may remain closed. */

import { expect, it } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import { isNeeded } from '#services/vectors/relational/service.ts'
import { relationalIndex } from '#services/vectors/write/rebuild.ts'

interface World {
  state: ReturnType<Mirror['state']>
  /** States of the generations 1, 2, .. */
  rows: string[]
  /** What each group has committed in the one partition. */
  committed: Record<string, number>
  end: number
}

function needed({ state, rows, committed, end }: World): Promise<boolean> {
  const mirror = { state: () => state } as Mirror
  const relational = {
    query: async () => ({ rows: rows.map((row, i) => ({ generation: i + 1, state: row, ageMs: 0 })) }),
  } as unknown as Relational
  const eventLog = {
    groupState: async (group: string) => ({
      committed: group in committed ? [{ partition: 0, offset: committed[group]! }] : [],
    }),
    offsets: async () => [{ partition: 0, start: 0, end }],
  } as unknown as EventLog
  return isNeeded(mirror, { relational, eventLog, index: relationalIndex, engine: mirror, physicalName: 'x' })
}

const resting: World = { state: 'closed', rows: ['live'], committed: { 'relational-writer': 7 }, end: 7 }

it('it may while the log holds nothing that it lacks', async () => {
  expect(await needed(resting)).toBe(false)
  expect(await needed({ state: 'absent', rows: [], committed: {}, end: 0 })).toBe(false)
  const second = { rows: ['retired', 'live'], committed: { 'relational-writer.g2': 7 } }
  expect(await needed({ ...resting, ...second })).toBe(false)
})

it('it is opened for a record that it lacks, and when something else has opened it', async () => {
  expect(await needed({ ...resting, end: 8 })).toBe(true)
  expect(await needed({ state: 'absent', rows: [], committed: {}, end: 1 })).toBe(true)
  expect(await needed({ ...resting, state: 'open' })).toBe(true)
})

it('it is opened when a rebuild is under way, and when its tables are lost', async () => {
  expect(await needed({ ...resting, rows: ['live', 'building'] })).toBe(true)
  expect(await needed({ ...resting, rows: ['retired', 'switching'] })).toBe(true)
  expect(await needed({ ...resting, state: 'absent' })).toBe(true)
})
