/** A sleeping mirror on Kafka and Postgres: the shared promises, and two gateways and a writer that is killed, each a process. */

import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient } from '#client/client.ts'
import { describeMirrorSleep, pointsOf, searchPg, searchUntilApplied } from '../flow/mirror-sleep.promises.ts'
import { createProcesses } from '../support/distributed-process.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { eventually } from '../support/eventually.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

async function environment(): Promise<Record<string, string>> {
  await servers.clear()
  return servers.newEnvironment()
}

describeMirrorSleep('distributed', environment)

const program = fileURLToPath(new URL('../support/sleeping-mirror.ts', import.meta.url))

it('gateways and writer apart: a question at any gateway wakes the writer, also the next one after kill -9', async () => {
  const env = await environment()
  // Without a Qdrant the vector engine is embedded, and cannot be shared.
  if (!env.QDRANT_URL) return
  const processes = createProcesses(env, program)
  const commands = createProcesses(env)
  try {
    const [one, two] = await Promise.all([
      processes.start(['vector-gateway', 'vector-writer', 'outbox-publisher']),
      processes.start(['vector-gateway']),
    ])
    let writer = await processes.start(['relational-writer'])
    const asleep = (one: typeof writer) =>
      eventually('the writer sleeps', () =>
        one
          .output()
          .split('\n')
          .findLast((text) => /"mirror\.(asleep|awake)"/.test(text))
          ?.includes('mirror.asleep'),
      )
    const provision = ['agents', 'provision', '--agent-id', 'whale', '--tier', 'infra-architect']
    const made = await commands.run<{ private_key_file: string }>(provision)
    const privateKeyFile = made.private_key_file
    const client = createClient({
      vectorUrl: one!.vectorUrl,
      agentId: 'whale',
      privateKeyFile,
      timeoutMs: 60_000,
    })
    const key = await client.apiKey()
    const upsert = (prefix: string) => client.upsert('posts', pointsOf(prefix, 5), { wait: true })
    await upsert('first')
    expect(await searchUntilApplied(two!, key, {})).toHaveLength(5)

    await asleep(writer)
    await upsert('second')
    expect(await searchUntilApplied(two!, key, {})).toHaveLength(10)
    await asleep(writer)
    const { operation_id: after } = await upsert('third')
    expect(await searchUntilApplied(one!, key, { after })).toHaveLength(15)

    await asleep(writer)
    await upsert('fourth')
    writer.child.kill('SIGKILL')
    await writer.finished
    // Nobody mirrors: an answer without the last points would be old without a word.
    expect((await searchPg(two!, key, {})).json).toMatchObject({ code: 'not_yet_applied', retryAfter: 1 })
    writer = await processes.start(['relational-writer'])
    expect(await searchUntilApplied(two!, key, {})).toHaveLength(20)
    await asleep(writer)
    await upsert('fifth')
    expect(await searchUntilApplied(one!, key, {})).toHaveLength(25)
  } finally {
    await processes.close()
    await commands.close()
  }
}, 400_000)
