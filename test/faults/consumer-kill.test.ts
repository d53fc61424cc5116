/** Consumers under kill -9: nothing is lost, few records are repeated but those in flight, a deadly one is parked. */

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { createHarness, testTopic } from '#test/support/consumer-harness.ts'
import { eventually } from '#test/support/eventually.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { ledgerOf, type Noted, partitions } from './consumer-child.ts'

const child = fileURLToPath(new URL('./consumer-child.ts', import.meta.url))
const concurrency = 8
const batchRecords = 20

interface Life {
  noted: Noted[]
  /** False when the process ended by itself. */
  killed: boolean
}

/** Runs the child until `enough` says so of what it noted, or until it is quiet; then kills it. */
async function live(directory: string, mode: string, enough: (noted: Noted[]) => boolean): Promise<Life> {
  writeFileSync(ledgerOf(directory), '')
  const one = spawn(process.execPath, [child, directory, mode], { stdio: ['ignore', 'inherit', 'inherit'] })
  onTestFinished(() => void one.kill('SIGKILL'))
  let over = false
  one.on('close', () => {
    over = true
  })
  let noted: Noted[] = []
  let heardAt = Date.now()
  while (!over) {
    const now = readLedger(directory)
    if (now.length > noted.length) heardAt = Date.now()
    noted = now
    const quietMs = noted.length === 0 ? 60_000 : 3_000
    if (enough(noted) || Date.now() - heardAt > quietMs) break
    await sleep(10)
  }
  const killed = one.kill('SIGKILL') && !over
  await eventually('the process is gone', () => over, 60_000)
  return { noted: readLedger(directory), killed }
}

function readLedger(directory: string): Noted[] {
  const text = readFileSync(ledgerOf(directory), 'utf8')
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
  return lines.filter(Boolean).map((line) => {
    const [what, at] = line.split(' ')
    return { what: what as Noted['what'], at: at! }
  })
}

async function prepare(records: number, lanes: number): Promise<string> {
  const directory = temporaryFolder()
  const log = await openEmbeddedLog({ directory })
  const harness = await createHarness(log, { topic: testTopic('work'), partitions })
  const entries = Array.from({ length: records }, (_, n) => ({ key: `lane-${n % lanes}` }))
  for (let partition = 0; partition < partitions; partition++) await harness.add(partition, entries)
  await log.close()
  return directory
}

async function lookAt(directory: string) {
  const log = await openEmbeddedLog({ directory })
  const harness = await createHarness(log, { topic: testTopic('work'), partitions, uninitialised: true })
  const { committed } = await log.groupState('workers', 'work')
  const letters = [...(await harness.deadLetters()).values()]
  await log.close()
  return { committed: committed.map((one) => one.offset), letters }
}

const of = (noted: Noted[], what: Noted['what']) =>
  noted.filter((one) => one.what === what).map((one) => one.at)

describe('kill -9 in mid-work', () => {
  test.each([
    // In flight, and what a partition may do ahead of its commits: 100 ms of batches of 10 ms, 20 ms of calls of 1.5 ms.
    ['batch', batchRecords * (1 + 10) * partitions],
    ['lanes', concurrency * (1 + 14) * partitions],
  ])(
    'in %s mode loses nothing and repeats only records in flight or not committed for a moment',
    async (mode, repeatsMax) => {
      const records = 2_000
      const directory = await prepare(records, 40)
      const ended = new Set<string>()
      for (let n = 0; n < 5; n++) {
        // Long enough to commit: four deaths without that take a record in flight for a deadly one.
        const { noted } = await live(directory, mode, (now) => of(now, 'end').length > 1_000 + n * 40)
        const repeated = of(noted, 'start').filter((at) => ended.has(at))
        expect(repeated.length).toBeLessThanOrEqual(repeatsMax)
        for (const at of of(noted, 'end')) ended.add(at)
      }
      const wanted = Array(partitions).fill(records)
      let state = await lookAt(directory)
      // A process that is paused for seconds looks as if it were done: another one goes on then.
      for (let n = 0; n < 5 && String(state.committed) !== String(wanted); n++) {
        const { noted } = await live(directory, mode, () => false)
        for (const at of of(noted, 'end')) ended.add(at)
        state = await lookAt(directory)
      }
      expect(ended.size).toBe(records * partitions)
      const { committed, letters } = state
      expect(committed).toEqual(wanted)
      expect(letters).toEqual([])
    },
    240_000,
  )

  test('a record that ends the process each time is run alone and then parked; everything else is done', async () => {
    const directory = await prepare(60, 60)
    const ended = new Set<string>()
    const lives: Life[] = []
    const wanted = Array(partitions).fill(60)
    const done = async () =>
      lives.at(-1)?.killed && String((await lookAt(directory)).committed) === String(wanted)
    while (lives.length < 20 && !(await done())) {
      const life = await live(directory, 'deadly', () => false)
      for (const at of of(life.noted, 'end')) ended.add(at)
      lives.push(life)
    }
    // One deadly record in each partition, side by side: four deaths or a little more each.
    expect(lives.length).toBeGreaterThan(4)
    expect(lives.length).toBeLessThan(18)
    expect(ended.size).toBe(59 * partitions)
    const { committed, letters } = await lookAt(directory)
    expect(committed).toEqual(wanted)
    expect(letters.map((letter) => letter.offset)).toEqual(Array(partitions).fill(3))
    expect(letters.every((letter) => String(letter.reason).includes('ended the process'))).toBe(true)
  }, 240_000)
})
