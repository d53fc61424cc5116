/** Kills the whole platform under load, again and again: what it acknowledged is there after the next start. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { createClient } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { freePort } from '../../scripts/servers/children.ts'
import { createProcesses, type Processes } from './distributed-process.ts'
import { checkWriters, startWriter, waitUntilApplied } from './distributed-writer.ts'
import { eventually } from './eventually.ts'
import { startChangers } from './payload-changers.ts'

/** Acknowledged between two kills, at least about so many. */
const acknowledgedPerKill = 100
const writersCount = 8
const collection = 'posts'

export async function expectPlatformSurvives(kills: number): Promise<void> {
  const processes = createProcesses({})
  onTestFinished(() => processes.close())
  const home = join(mkdtempSync(join(tmpdir(), 'fl-')), 'home')
  const more = { VECTOR_GATEWAY_PORT: String(await freePort()), LOG_LEVEL: 'warn' }
  let platform = await processes.start([], { home, more })
  const provisioned = await processes.run<{ private_key_file: string }>(
    ['agents', 'provision', '--agent-id', 'writer', '--tier', 'infra-architect'],
    home,
  )
  const client = createClient({
    vectorUrl: platform.vectorUrl,
    agentId: 'writer',
    privateKeyFile: provisioned.private_key_file,
  })
  const writers = Array.from({ length: writersCount }, (_, n) =>
    startWriter({ client, name: `w${n}`, collection, wait: true, exact: true }),
  )
  const changers = await startChangers(client)
  // A writer that ends would let the waiting go on to its limit, and say nothing.
  const broken = Promise.race(writers.map((writer) => writer.broken))
  const acknowledged = () => writers.reduce((sum, writer) => sum + writer.acknowledged(), 0)

  for (let kill = 1; kill <= kills; kill++) {
    const least = acknowledged() + acknowledgedPerKill * (0.5 + Math.random())
    const isUnderLoad = eventually(`kill ${kill} is under load`, () => acknowledged() >= least, 120_000)
    await Promise.race([isUnderLoad, broken])
    await sleep(Math.random() * 50)
    platform.child.kill('SIGKILL')
    await platform.finished
    if (kill % 3 === 0) await killAtStart(processes, home, more)
    platform = await processes.start([], { home, more })
  }
  await eventually('enough was written', () => acknowledged() >= kills * acknowledgedPerKill, 60_000)
  await Promise.all(writers.map((writer) => writer.stop()))
  await waitUntilApplied(client, writers)
  const changes = await changers.expectAll()
  expect(changes).toBeGreaterThan(0)
  const { faults, present } = await checkWriters(client, collection, writers)
  expect(faults).toEqual([])
  expect(await client.count(collection)).toBe(present)
  const scrolled = new Set<string>()
  for await (const { id } of client.scrollAll({ collection, withPayload: false })) scrolled.add(id)
  expect(scrolled.size).toBe(present)
  const done = `${acknowledged()} operations and ${changes} changes of payloads acknowledged`
  console.error(`${kills} kills, ${done}, ${present} points`)
  platform.child.kill('SIGTERM')
  expect(await platform.finished).toBe(0)
  rmSync(join(home, '..'), { recursive: true, force: true })
}

/** Dies while it opens its engines: that must not be in the way of the next start either. */
async function killAtStart(processes: Processes, home: string, more: Record<string, string>): Promise<void> {
  const one = processes.spawn([], { home, more })
  await sleep(200 + Math.random() * 2_000)
  one.child.kill('SIGKILL')
  await one.finished
}
