/** Records of collections that are gone: left out, deleted in the log when they came late, and waited for while nobody knows. */

import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import {
  deleteLate,
  isLeftOut,
  readStandings,
  type Standings,
} from '#services/vectors/collections/leave-out.ts'
import type { Standing } from '#services/vectors/collections/registry.ts'

const value = { vector: Buffer.alloc(0), payload: '{}', embedder: null, making: null, expires_at: null }
const record = (key: string, timestamp = 0, deleted = false) => ({
  key,
  timestamp,
  value: deleted ? null : value,
})
const [here, gone, unknown] = ['tea~0000000001', 'tea~0000000002', 'tea~0000000003'] as const
const standings: Standings = new Map<string, Standing>([
  [here, 'written'],
  [gone, { purgedAt: new Date(1_000) }],
  [unknown, { purgedAt: null }],
])

test('nobody is asked about the four, whatever the ids of their points are', () => {
  const collections = { standing: () => expect.unreachable() }
  const read = readStandings([record('posts/a~b'), record('fleet_notes/x'), record('nothing')], collections)
  expect(read).toEqual(new Map())
})

test('each collection is asked for once, and only records of those that are gone are left out', async () => {
  const asked: string[] = []
  const collections = {
    standing(stored: string) {
      asked.push(stored)
      return standings.get(stored)!
    },
  }
  const records = [here, gone, here, unknown].map((stored) => record(`${stored}/a`))
  const read = (await readStandings(records, collections)) as Standings
  expect(asked).toEqual([here, gone, unknown])
  expect([here, gone, unknown, 'posts'].map((stored) => isLeftOut(stored, read))).toEqual([
    false,
    true,
    true,
    false,
  ])
})

test('while the database is away the batch waits', async () => {
  const away = new AppError('relational_engine_unavailable', 'away')
  const collections = { standing: () => Promise.reject(away) }
  expect(await readStandings([record(`${here}/a`)], collections)).toMatchObject({ kind: 'unavailable' })
  const broken = { standing: () => Promise.reject(new Error('a fault of ours')) }
  await expect(readStandings([record(`${here}/a`)], broken)).rejects.toThrow('a fault of ours')
})

test('points written after their collection was purged are deleted, earlier and unknown ones are not', async () => {
  const published: unknown[] = []
  const warned: object[] = []
  const publisher = {
    publish: async (_: unknown, messages: { key: unknown; value: unknown }[]) => {
      published.push(...messages.map(({ key, value }) => ({ key, value })))
      return []
    },
  }
  const records = [
    record(`${gone}/early`, 1_000),
    record(`${gone}/late`, 1_001),
    record(`${gone}/deleted`, 1_001, true),
    record(`${here}/a`, 1_001),
    record(`${unknown}/a`, 1_001),
    record(`${unknown}/b`, 1_001),
  ]
  const log = { warn: (facts: object) => void warned.push(facts) } as never
  await deleteLate({ publisher: publisher as never, log }, records, standings)
  expect(published).toEqual([{ key: { collection: gone, id: 'late' }, value: null }])
  expect(warned).toEqual([{ collection: unknown }])
})
