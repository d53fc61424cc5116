/** The data directory's volume is full under an embedded platform: typed answers, nothing lost, and it goes on when there is room. */

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { createClient, type ProblemError } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { createProcesses } from '../support/distributed-process.ts'
import { eventually } from '../support/eventually.ts'
import { createPoints } from '../support/fault-fleet/points.ts'
import { mountVolume } from '../support/fault-fleet/volume.ts'

const processes = createProcesses({})
const volume = mountVolume(400)
afterAll(async () => {
  await processes.close()
  volume?.unmount()
})
const fullForMs = 5_000
let tries = 0

test.skipIf(volume === null)(
  'writes are refused while the disk is full, and go on when it is not',
  {
    timeout: 300_000,
  },
  async () => {
    const home = join(volume!.path, `home${tries++}`)
    onTestFinished(async () => {
      // A second try finds room, and no process of the first.
      volume!.free()
      await processes.close()
      rmSync(home, { recursive: true, force: true })
    })
    const platform = await processes.start([], { home })
    const args = ['agents', 'provision', '--agent-id', 'writer', '--tier', 'infra-architect']
    const { private_key_file } = await processes.run<{ private_key_file: string }>(args, home)
    const client = createClient({
      vectorUrl: platform.vectorUrl,
      agentId: 'writer',
      privateKeyFile: private_key_file,
      attemptsMax: 1,
    })
    const points = createPoints()
    const answers = new Map<string, number>()
    const write = async () => {
      const answer = await points.write('w', client).then(
        () => 'accepted',
        (error: ProblemError) => `${error.status} ${error.code}`,
      )
      answers.set(answer, (answers.get(answer) ?? 0) + 1)
      return answer
    }
    while (points.acknowledged() < 100) await write()
    expect([...answers.keys()]).toEqual(['accepted'])
    volume!.fill()
    const until = performance.now() + fullForMs
    while (performance.now() < until) {
      await write()
      await sleep(20)
    }
    console.error(`while the disk was full: ${JSON.stringify([...answers])}`)
    const refusals = [...answers.keys()].filter((answer) => answer !== 'accepted')
    expect(refusals).toEqual(['503 log_unavailable'])
    volume!.free()
    await eventually('writing goes on', async () => (await write()) === 'accepted', 60_000)
    const applied = async () => {
      const answer = await client.upsert('posts', [{ id: 'last', vector: points.question().vector }], {
        wait: true,
      })
      return answer.status === 'applied'
    }
    await eventually('it is applied', applied, 60_000)
    expect(await points.check(client)).toEqual([])
    expect(platform.child.exitCode).toBeNull()
    // Acknowledged points are there after a start as well.
    platform.child.kill('SIGKILL')
    await platform.finished
    const again = await processes.start([], {
      home,
      more: { VECTOR_GATEWAY_PORT: new URL(platform.vectorUrl).port },
    })
    expect(again.vectorUrl).toBe(platform.vectorUrl)
    expect(await points.check(client)).toEqual([])
  },
)
