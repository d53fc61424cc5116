/** Leaders of a three-broker cluster are killed under the whole platform's load: every accepted operation is applied. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../support/distributed-process.ts'
import { type DistributedServers, openDistributedServers } from '../support/distributed-servers.ts'
import { checkWriters, startWriter, waitUntilApplied } from '../support/distributed-writer.ts'
import { eventually } from '../support/eventually.ts'

/** Accepted between two kills, at least. */
const someOperations = 150
const downMs = 4_000

let servers: DistributedServers
let processes: Processes
let platform: ServiceProcess
let client: Client

beforeAll(async () => {
  servers = await openDistributedServers(3)
  processes = createProcesses(await servers.newEnvironment())
  platform = await processes.start([])
  const args = ['agents', 'provision', '--agent-id', 'whale', '--tier', 'infra-architect']
  const { private_key_file } = await processes.run<{ private_key_file: string }>(args, platform.home)
  client = createClient({
    vectorUrl: platform.vectorUrl,
    agentId: 'whale',
    privateKeyFile: private_key_file,
  })
})

afterAll(async () => {
  await processes?.close()
  await servers?.close()
})

test('each broker dies once under load, and nothing that was accepted is lost or stays undone', async () => {
  const exact = servers.qdrant === null
  const writers = ['w1', 'w2', 'w3', 'w4'].map((name) =>
    startWriter({ client, name, collection: 'posts', wait: false, exact }),
  )
  const acknowledged = () => writers.reduce((sum, writer) => sum + writer.acknowledged(), 0)
  try {
    for (const node of servers.kafka.nodes) {
      const before = acknowledged()
      await eventually(`node ${node} dies under load`, () => acknowledged() > before + someOperations, 90_000)
      await servers.kafka.kill9(node)
      await sleep(downMs)
      await servers.kafka.start(node)
    }
    const before = acknowledged()
    await eventually('writing goes on', () => acknowledged() > before + someOperations, 90_000)
  } finally {
    await Promise.all(writers.map((writer) => writer.stop()))
  }
  await waitUntilApplied(client, writers)
  const { faults, present } = await checkWriters(client, 'posts', writers)
  expect(faults).toEqual([])
  expect(await client.count('posts')).toBe(present)
  console.error(`${acknowledged()} operations accepted, ${present} points`)
}, 400_000)
