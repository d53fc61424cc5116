/** kill -9 of the relational-writer in mid-write, again and again: the tables end as the log says. */

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { readRecords } from '#runtime/follow/read-records.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { layMirrorCluster } from '../support/mirror.ts'
import { openMirrorPlatform } from '../support/mirror-platform.ts'
import { copyCluster } from '../support/relational.ts'
import { temporaryFolder } from '../support/temporary.ts'

const child = fileURLToPath(new URL('./mirror-child.ts', import.meta.url))
const kills = 4

it('after kill -9 in mid-write the rows are what the log says, and each position is the end of its partition', async () => {
  const home = temporaryFolder()
  await copyCluster(home)
  await layMirrorCluster(home)
  let written = 0
  for (let kill = 0; kill < kills; kill++) written = await writeUntilKilled(home, written, 200 + kill * 170)

  const flow = await openMirrorPlatform({ FLOTILLA_HOME: home })
  await flow.drained(120_000)
  const { eventLog } = flow.platform.engines
  const expected: Record<string, unknown> = {}
  const topic = vectorsCommands
  await readRecords({
    eventLog,
    topic: vectorsCommands.name,
    startOf: (range) => range.start,
    async records(records) {
      for (const record of records) {
        const { key, value } = await flow.platform.codec.decode(topic, record)
        if (value) expected[key] = JSON.parse(value.payload)
        else delete expected[key]
      }
    },
    signal: new AbortController().signal,
  })
  expect(Object.keys(expected).length).toBeGreaterThan(30)
  expect(await flow.rows()).toEqual(expected)
  // Nothing was thrown away: a killed process costs the embedded database nothing.
  expect(await flow.mirror.liveGeneration()).toBe(1)
  const held = await flow.mirror.positions({ generation: 1, epoch: 1 })
  const ends = new Map((await eventLog.offsets('vectors.commands')).map((one) => [one.partition, one.end]))
  for (const { partition, next } of held) expect(next).toBe(ends.get(partition))
}, 300_000)

/** Resolves with the number that the next one begins with. */
function writeUntilKilled(home: string, from: number, records: number): Promise<number> {
  const running = spawn(process.execPath, [child, home, String(from)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let written = from
  running.stdout.on('data', (chunk: Buffer) => {
    written = Number(chunk.toString().trim().split('\n').at(-1))
    if (written - from >= records) running.kill('SIGKILL')
  })
  return new Promise((resolve, reject) => {
    running.on('exit', (code, signal) => {
      if (signal === 'SIGKILL') resolve(written)
      else reject(new Error(`the child ended with ${code}`))
    })
  })
}
