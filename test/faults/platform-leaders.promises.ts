/** Leaders of a three-broker cluster are killed under the whole platform's load: every accepted operation is applied. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import type { AwayStack } from '../support/away-stack.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../support/distributed-process.ts'
import { checkWriters, startWriter, waitUntilApplied } from '../support/distributed-writer.ts'
import { eventually } from '../support/eventually.ts'

/** Accepted between two kills, at least. */
const someOperations = 150
const downMs = 4_000

/** Only ends a hang. */
const patienceMs = 90_000

export function describePlatformWithoutLeaders(stack: AwayStack): void {
  describe('a platform whose brokers are killed', () => {
    let processes: Processes
    let platform: ServiceProcess
    let client: Client
    let tries = 0

    beforeAll(async () => {
      processes = createProcesses((await stack.newEnvironment()).env)
      platform = await processes.start([])
      const args = ['agents', 'provision', '--agent-id', 'whale', '--tier', 'infra-architect']
      const { private_key_file } = await processes.run<{ private_key_file: string }>(args, platform.home)
      client = createClient({
        vectorUrl: platform.vectorUrl,
        agentId: 'whale',
        privateKeyFile: private_key_file,
      })
    })

    afterAll(() => processes?.close())

    test('each broker dies once under load, and nothing that was accepted is lost or stays undone', async () => {
      tries += 1
      // Points of a first try, usually none.
      const there = await client.count('posts')
      const exact = stack.servers.qdrant === null
      const writers = ['w1', 'w2', 'w3', 'w4'].map((name) =>
        startWriter({ client, name: `${name}-${tries}`, collection: 'posts', wait: false, exact }),
      )
      const acknowledged = () => writers.reduce((sum, writer) => sum + writer.acknowledged(), 0)
      try {
        for (const node of stack.servers.kafka.nodes) {
          const before = acknowledged()
          await eventually(
            `node ${node} dies under load`,
            () => acknowledged() > before + someOperations,
            patienceMs,
          )
          await stack.killKafka(node)
          await sleep(downMs)
          await stack.startKafka(node)
        }
        const before = acknowledged()
        await eventually('writing goes on', () => acknowledged() > before + someOperations, patienceMs)
      } finally {
        await Promise.all(writers.map((writer) => writer.stop()))
      }
      await waitUntilApplied(client, writers)
      const { faults, present } = await checkWriters(client, 'posts', writers)
      expect(faults).toEqual([])
      expect(await client.count('posts')).toBe(there + present)
      console.error(`${acknowledged()} operations accepted, ${present} points`)
    }, 400_000)
  })
}
