/** What a gateway does before it searches the mirror: notes that it is asked, and waits where the mirror slept. */

import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { PartitionRange } from '#engines/event-log/port.ts'
import type { Relational } from '#engines/relational/port.ts'
import type { Position } from '#runtime/publish/messages.ts'
import { beginUse, createMirrorUse, mirrorMaySleep } from '#services/vectors/relational/use.ts'
import { openControlPlane } from '../../../../support/control-plane.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openControlPlane()
}, 120_000)
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.leases'))

const hourMs = 3_600_000

/** A gateway; `applied` is how far the mirror is in the one partition, and `end` the end of the log. */
function gateway({ noteEveryMs = hourMs, off = false } = {}) {
  const state = { applied: -1, end: 10, notes: 0, away: false, asked: [] as Position[][] }
  const limits = { noteEveryMs, takeEveryMs: hourMs, pendingMax: 10, lookMs: 10 }
  const use = createMirrorUse({
    relational: {
      query: (text, params) => {
        state.notes++
        if (state.away) return Promise.reject(new Error('away'))
        return relational.query(text, params)
      },
    },
    eventLog: {
      offsets: async (): Promise<PartitionRange[]> => [{ partition: 0, start: 0, end: state.end }],
    },
    publisher: { locationOf: () => ({ physicalName: 'vectors.commands', epoch: 1, partitions: 1 }) },
    mirrored: {
      appliedThrough: () => state.applied,
      async reached(positions) {
        state.asked.push([...positions])
        return positions.every(({ offset }) => offset <= state.applied)
      },
    },
    off,
    awakeMs: hourMs,
    limits,
  })
  return { state, use }
}

const fallAsleep = () =>
  relational.query(`update platform.leases set expires_at = clock_timestamp() - interval '1 s'`)

it('a mirror that no writer ever let sleep is never waited for', async () => {
  const { use, state } = gateway()
  await use.awake()
  expect(state.asked).toEqual([])
  expect(await mirrorMaySleep(relational)).toBe(false)
})

it('many questions are one note, and once the mirror has caught up none of them waits', async () => {
  await beginUse(relational, hourMs)
  const { use, state } = gateway()
  state.applied = 9
  await Promise.all([use.awake(), use.awake()])
  await use.awake()
  expect(state).toMatchObject({
    notes: 1,
    asked: [[{ partition: 0, offset: 9 }], [{ partition: 0, offset: 9 }]],
  })
})

it('a question after a sleep is answered when the mirror has everything, and not before', async () => {
  await beginUse(relational, hourMs)
  const { use, state } = gateway({ noteEveryMs: 0 })
  state.applied = 9
  await use.awake()
  await fallAsleep()
  expect(await mirrorMaySleep(relational)).toBe(true)
  state.end = 20
  await expect(use.awake()).rejects.toMatchObject({ code: 'not_yet_applied', retryAfter: expect.any(Number) })
  expect(await mirrorMaySleep(relational)).toBe(false)
  // Another gateway noted it: this one still has to catch up.
  const other = gateway()
  other.state.end = 20
  await expect(other.use.awake()).rejects.toMatchObject({ code: 'not_yet_applied' })
  state.applied = 19
  await use.awake()
  expect(state.asked).toHaveLength(2)
})

it('writes that come during the catching up do not hold questions off for ever', async () => {
  await beginUse(relational, hourMs)
  const { use, state } = gateway()
  await expect(use.awake()).rejects.toMatchObject({ code: 'not_yet_applied' })
  Object.assign(state, { applied: 9, end: 1_000 })
  await use.awake()
  expect(state.asked).toHaveLength(1)
})

it('a note that failed is made again by the next question', async () => {
  await beginUse(relational, hourMs)
  const { use, state } = gateway()
  Object.assign(state, { away: true, applied: 9 })
  await expect(use.awake()).rejects.toThrow('away')
  state.away = false
  await use.awake()
  expect(state.notes).toBe(2)
})

it('a writer that never sleeps keeps the mirror awake for ever, and one that may sleep again does not', async () => {
  await beginUse(relational, null)
  const { rows } = await relational.query(`select expires_at = 'infinity' as ever from platform.leases`)
  expect(rows).toEqual([{ ever: true }])
  await gateway()
    .use.awake()
    .catch(() => {})
  await beginUse(relational, 0)
  expect(await mirrorMaySleep(relational)).toBe(true)
})

it('while it is off a question is refused, and names the fix', () => {
  const { use } = gateway({ off: true })
  expect(() => use.demandOn()).toThrow(expect.objectContaining({ code: 'mirror_off' }))
})
