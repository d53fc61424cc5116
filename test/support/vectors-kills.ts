/** Kills a writing process again and again at one folder and compares its points with the acknowledged ones. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { expect } from 'vitest'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import { randomVector } from './vectors.ts'

const child = fileURLToPath(new URL('./vectors-child.ts', import.meta.url))
const dimension = 64

/** Runs the writer `kills` times, each until `batches` batches are acknowledged, then looks for every one of them. */
export async function expectNothingLost(directory: string, kills: number, batches: number): Promise<void> {
  const live = new Set<string>()
  const deleted = new Set<string>()
  for (let round = 0; round < kills; round++) {
    for (const ids of await killedWriter(directory, round, batches)) {
      deleted.add(ids[0]!)
      for (const id of ids.slice(1)) live.add(id)
    }
    // Not after each: a writer must also start on what the one before it left.
    if (round % 2 === 1 || round === kills - 1) await compare(directory, live, deleted, round)
  }
}

async function killedWriter(directory: string, round: number, batches: number): Promise<string[][]> {
  const writer = spawn(process.execPath, [child, directory, String(round)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const acknowledged: string[][] = []
  for await (const line of createInterface({ input: writer.stdout })) {
    if (line !== 'open') acknowledged.push(line.split(' '))
    if (acknowledged.length >= batches) break
  }
  const exited = once(writer, 'exit')
  writer.kill('SIGKILL')
  await exited
  expect(acknowledged.length).toBeGreaterThanOrEqual(batches)
  return acknowledged
}

async function compare(
  directory: string,
  live: Set<string>,
  deleted: Set<string>,
  round: number,
): Promise<void> {
  const logged: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void logged.push(line) })
  const store = await openEmbeddedVectors({ directory, collections: ['points'], dimension, log })
  try {
    expect(logged.some((line) => line.includes('vectors.index-built'))).toBe(true)
    const ids = [...live]
    expect((await store.get('points', ids)).length).toBe(ids.length)
    expect(await store.get('points', [...deleted])).toEqual([])
    const ofRound = { must: [{ key: 'round', match: { value: round } }] }
    const inRound = ids.filter((id) => id.startsWith(`${round}-`)).length
    // A batch may have been applied and not yet acknowledged.
    expect(await store.count('points', ofRound)).toBeGreaterThanOrEqual(inRound)
    for (const id of ids.filter((_, i) => i % Math.ceil(ids.length / 20) === 0)) {
      const [of, i] = id.split('-').map(Number) as [number, number]
      const query = { vector: randomVector(dimension, of * 100_000 + i), limit: 100 }
      const { hits } = await store.search('points', query)
      expect(hits.filter((hit) => hit.score > 0.9999).map((hit) => hit.id)).toContain(id)
    }
  } finally {
    await store.close()
  }
}
