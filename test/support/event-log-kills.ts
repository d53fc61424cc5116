/** Kills processes that write an embedded event log: acknowledged records are there, in order, once. */

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { range, readAll } from '../contract/event-log/world.ts'
import { type Acknowledged, partitions, topics } from './event-log-embedded-child.ts'
import { temporaryFolder } from './temporary.ts'

/** Appends that each process acknowledges before it may die. */
const appendsMin = 12
const child = fileURLToPath(new URL('./event-log-embedded-child.ts', import.meta.url))

/** Starts the child, kills it some time after its first acknowledgements, and returns what it had printed. */
function workAndDie(directory: string, from: number, afterMs: number): Promise<Acknowledged[]> {
  return new Promise((resolve, reject) => {
    const one = spawn(process.execPath, [child, 'run', directory, String(from)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void one.kill('SIGKILL'))
    let text = ''
    let dying = false
    one.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
      if (dying || text.split('"append"').length <= appendsMin) return
      dying = true
      setTimeout(() => one.kill('SIGKILL'), afterMs)
    })
    one.on('close', (code) => {
      if (code !== null) return reject(new Error(`the child ended by itself with ${code}`))
      const whole = text.slice(0, text.lastIndexOf('\n') + 1)
      resolve(
        whole
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Acknowledged),
      )
    })
  })
}

const numberOf = (record: StoredRecord) => Number(record.value!.toString().split(':')[0])
const placeOf = (one: { partition: number; offset: number }) => `${one.partition}/${one.offset}`

function expectIntact(directory: string): void {
  const db = new DatabaseSync(join(directory, 'event-log.sqlite'))
  expect(db.prepare('pragma quick_check').get()).toEqual({ quick_check: 'ok' })
  db.close()
}

/** Everything acknowledged lies where it was said to lie, and per key the numbers only rise. */
function expectKept(stored: StoredRecord[], acknowledged: Acknowledged[]): void {
  const byPlace = new Map(stored.map((one) => [placeOf(one), one]))
  expect(byPlace.size).toBe(stored.length)
  for (const partition of range(0, partitions)) {
    const offsets = stored.filter((one) => one.partition === partition).map((one) => one.offset)
    expect(offsets).toEqual(range(0, offsets.length))
  }
  const missing = acknowledged.flatMap((one) => {
    if (one.kind !== 'append' || one.topic !== topics.kept) return []
    return Array.from({ length: one.count }, (_, i) => ({
      ...one,
      offset: one.offset + i,
      number: one.first + i,
    })).filter((want) => {
      const found = byPlace.get(placeOf(want))
      return found?.key?.toString() !== want.key || numberOf(found) !== want.number
    })
  })
  expect(missing).toEqual([])
  const last = new Map<string, number>()
  for (const one of stored) {
    const key = one.key!.toString()
    expect(numberOf(one)).toBeGreaterThan(last.get(key) ?? -1)
    last.set(key, numberOf(one))
  }
}

/** A reader ends with the newest acknowledged number of every key, or a later one. */
function expectCompacted(stored: StoredRecord[], acknowledged: Acknowledged[]): void {
  const newest = new Map(stored.map((one) => [one.key!.toString(), numberOf(one)]))
  for (const one of acknowledged) {
    if (one.kind !== 'append' || one.topic !== topics.compacted) continue
    expect(newest.get(one.key) ?? -1).toBeGreaterThanOrEqual(one.first + one.count - 1)
  }
}

/** The greatest value of each partition. */
function greatest(pairs: [number, number][]): Map<number, number> {
  const found = new Map<number, number>()
  for (const [partition, value] of pairs) found.set(partition, Math.max(found.get(partition) ?? 0, value))
  return found
}

export async function expectLogSurvives(kills: number): Promise<void> {
  const directory = temporaryFolder()
  const acknowledged: Acknowledged[] = []
  for (let round = 0; round < kills; round++) {
    acknowledged.push(...(await workAndDie(directory, round * 1_000_000, 50 + ((round * 97) % 400))))
    // Mostly the next process opens what the kill left; now and then it is looked at and closed cleanly first.
    if (round % 4 === 2) expectIntact(directory)
  }
  expect(acknowledged.filter((one) => one.kind === 'append').length).toBeGreaterThanOrEqual(
    kills * appendsMin,
  )

  const log = await openEmbeddedLog({ directory })
  onTestFinished(() => log.close())
  expectKept(await readAll(log, topics.kept), acknowledged)
  expectCompacted(await readAll(log, topics.compacted), acknowledged)

  const { committed } = await log.groupState('group', topics.kept)
  const commits = greatest(
    acknowledged.flatMap((one) => (one.kind === 'commit' ? [[one.partition, one.offset]] : [])),
  )
  for (const [partition, offset] of commits) {
    const found = committed.find((one) => one.partition === partition)
    expect(found?.offset).toBeGreaterThanOrEqual(offset)
    expect(found?.metadata).toBe(String(found?.offset))
  }
  const cuts = greatest(
    acknowledged.flatMap((one) => (one.kind === 'cut' ? [[one.partition, one.start]] : [])),
  )
  for (const { partition, start, end } of await log.offsets(topics.cut)) {
    expect(start).toBeGreaterThanOrEqual(cuts.get(partition) ?? 0)
    expect(end).toBeGreaterThanOrEqual(start)
  }
  await log.close()
  expectIntact(directory)
}
