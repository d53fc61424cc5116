/** A vector-writer that is paused in the middle of an engine call, and wakes when another one has its partition. */

import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { LogPosition, Payload, VectorStore } from '#engines/vectors/port.ts'
import { groupOfGeneration, vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { prefixedPublisher } from '#test/support/consumer-wiring.ts'
import { eventually } from '#test/support/eventually.ts'
import { topicSpec } from '#test/support/index-writer.ts'
import { kafkaBrokers } from '#test/support/servers.ts'
import { temporaryFolder } from '#test/support/temporary.ts'
import { vectorOf } from '#test/support/vectors.ts'
import { vectorsCommands } from '#topics/catalog.ts'

const child = fileURLToPath(new URL('./vector-writer-child.ts', import.meta.url))
const log = pino({ level: 'silent' })
const dimension = 64

interface Call {
  name: string
  operations: { id: string; position: LogPosition; payload: Payload | null }[]
}

/** The index, behind HTTP; `calls` are those that it has applied. */
async function openIndex(): Promise<{ vectors: VectorStore; url: string; calls: Call[] }> {
  const parts = { directory: temporaryFolder(), collections: ['posts'], dimension, log }
  const vectors = await openEmbeddedVectors(parts)
  const calls: Call[] = []
  const server = createServer(async (request, response) => {
    const call = (await json(request)) as Call
    await vectors.apply(
      'posts',
      call.operations.map(({ id, position, payload }) =>
        payload
          ? { kind: 'upsert', id, position, payload, vector: vectorOf(dimension, 1, 1) }
          : { kind: 'delete', id, position },
      ),
    )
    calls.push(call)
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await vectors.close()
  })
  return { vectors, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, calls }
}

async function openLog(brokers: string[]) {
  const prefix = `paused-${randomInt(1e9)}.`
  // A group of its own on a broker that others use, too.
  const generation = randomInt(1_000, 1e6)
  const eventLog = await openKafkaLog({ brokers, clientId: 'paused', log })
  onTestFinished(() => eventLog.close())
  for (const name of ['vectors.commands', 'vectors.commands.dead-letters', 'vectors.progress']) {
    await eventLog.createTopic({ ...topicSpec(`${prefix}${name}`), segmentBytes: 1e8, segmentMs: 1e9 })
  }
  const group = groupOfGeneration(vectorsIndex, generation)
  await eventLog.setPositions(group, `${prefix}vectors.commands`, [{ partition: 0, offset: 0 }])
  const publisher = prefixedPublisher(eventLog, 1, prefix)
  const put = (points: [id: string, payload: object | null][]) =>
    publisher.publish(
      vectorsCommands,
      points.map(([id, payload]) => ({
        key: { collection: 'posts', id },
        value: payload && {
          vector: Buffer.alloc(1536 * 4, 0x3f),
          payload: JSON.stringify(payload),
          embedder: null,
          making: null,
          expires_at: null,
        },
      })),
    )
  return { prefix, generation, put }
}

async function startWriter(name: string, args: string[]) {
  const writer = spawn(process.execPath, [child, ...args, name], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void writer.kill('SIGKILL'))
  await once(writer.stdout, 'data')
  return writer
}

test('its late write changes nothing that is newer', { timeout: 180_000 }, async () => {
  const brokers = await kafkaBrokers()
  const { vectors, url, calls } = await openIndex()
  const { prefix, generation, put } = await openLog(brokers)
  const args = [brokers.join(','), prefix, String(generation), url]
  const held = async () => {
    const { points } = await vectors.scroll('posts', { limit: 100, withPayload: true })
    return Object.fromEntries(points.map(({ id, payload }) => [id, payload?.v]))
  }
  const paused = await startWriter('pauses', args)
  const pausing = once(paused.stdout, 'data')
  await put(['a', 'b', 'c', 'd'].map((id) => [id, { v: 0 }]))
  await eventually('the first values are there', async () => Object.keys(await held()).length === 4, 60_000)
  await put([
    ['a', { v: 1, stand: true }],
    ['b', null],
    ['c', { v: 1 }],
  ])
  // Until then it may repeat a call that took long, or read the writes below together with this one.
  await pausing
  const before = calls.length
  await startWriter('follows', args)
  await put([
    ['a', { v: 2 }],
    ['b', { v: 2 }],
    ['c', null],
  ])
  const expected = { a: 2, b: 2, d: 0 }
  const asExpected = async () => JSON.stringify(await held()) === JSON.stringify(expected)
  await eventually('the second has applied everything', asExpected, 90_000)
  expect(calls.slice(before).every(({ name }) => name === 'follows')).toBe(true)
  paused.kill('SIGCONT')
  const late = () => calls.slice(before).filter(({ name }) => name === 'pauses')
  await eventually('the late write arrives', () => late().length > 0, 60_000)
  expect(late()[0]?.operations[0]).toMatchObject({ id: 'a', payload: { v: 1 } })
  expect(await held()).toEqual(expected)
})
