/** Following a topic: in order, nothing dropped in silence, and a registry that is away is waited for. */

import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { followRecords, followTopic } from '#runtime/follow/follow-topic.ts'
import type { Codec } from '#runtime/publish/messages.ts'
import { jsonCodec, testPublisher } from '#test/support/consumer-wiring.ts'
import { eventually } from '#test/support/eventually.ts'
import { topicSpec } from '#test/support/index-writer.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { vectorsProgress } from '#topics/catalog.ts'

const value = (through: number) => ({
  index: 'vectors',
  generation: 1,
  partition: 0,
  epoch: 1,
  applied_through: through,
  failures: 0,
})

async function openWorld(codec: Codec = jsonCodec) {
  const eventLog = createMemoryLog()
  await eventLog.createTopic(topicSpec('vectors.progress'))
  const publisher = testPublisher(eventLog, 1)
  const lines: { msg: string; offset?: number }[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const parts = { eventLog, publisher, codec, log }
  return {
    parts,
    lines,
    publish: (...through: number[]) =>
      publisher.publish(
        vectorsProgress,
        through.map((n) => ({ key: value(n), value: value(n) })),
      ),
    append: (bytes: string) =>
      eventLog.append('vectors.progress', 0, [{ key: Buffer.from('odd'), value: Buffer.from(bytes) }]),
  }
}

/** Answers as the registry does: away, until it is there. */
function registry(isAway: () => boolean): Codec {
  return {
    ...jsonCodec,
    async decode(topic, record) {
      if (isAway()) throw new AppError('registry_unavailable', 'It does not answer.')
      return jsonCodec.decode(topic, record)
    },
  }
}

test('messages come in order, each when the one before is done', async () => {
  const { parts, publish } = await openWorld()
  await publish(1, 2, 3)
  const seen: string[] = []
  const following = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    async onMessage({ value }) {
      seen.push(`begin ${value?.applied_through}`)
      await new Promise((resolve) => setImmediate(resolve))
      seen.push(`end ${value?.applied_through}`)
    },
    onBatch: (partition, next) => void seen.push(`${partition} to ${next}`),
  })
  onTestFinished(() => following.close())
  await following.ready
  const each = (n: number) => [`begin ${n}`, `end ${n}`]
  expect(seen).toEqual([...each(1), ...each(2), ...each(3), '0 to 3'])
  await publish(4)
  await eventually('later records', () => seen.includes('end 4'))
})

test('a registry that is away is waited for: nothing is left out, and it is not ready before', async () => {
  let isAway = true
  const { parts, lines, publish } = await openWorld(registry(() => isAway))
  await publish(1, 2)
  const seen: unknown[] = []
  const following = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    onMessage: ({ value }) => void seen.push(value?.applied_through),
  })
  onTestFinished(() => following.close())
  let isReady = false
  void following.ready.then(() => {
    isReady = true
  })
  await eventually('it waits', () => lines.some(({ msg }) => msg === 'follow.waiting'))
  expect([seen, isReady]).toEqual([[], false])
  isAway = false
  await following.ready
  expect(seen).toEqual([1, 2])
})

test('what cannot be decoded is said in its place, logged once in a row, and the others come', async () => {
  const { parts, lines, publish, append } = await openWorld()
  await publish(1)
  await append('not json')
  await append('not json either')
  await publish(2)
  const seen: unknown[] = []
  const following = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    onMessage: ({ value }) => void seen.push(value?.applied_through),
    onFault: ({ offset }) => void seen.push(`fault at ${offset}`),
  })
  onTestFinished(() => following.close())
  await following.ready
  expect(seen).toEqual([1, 'fault at 1', 'fault at 2', 2])
  expect(lines.filter(({ msg }) => msg === 'follow.unreadable')).toMatchObject([{ offset: 1 }])
})

test('a handler that throws ends it: nothing comes any more, it is not current, and the log says so', async () => {
  const { parts, lines, publish } = await openWorld()
  await publish(1, 2, 3)
  const seen: number[] = []
  const following = await followRecords(parts, vectorsProgress, {
    from: 'beginning',
    onRecord({ offset }) {
      seen.push(offset)
      if (offset === 1) throw new Error('a fault of ours')
    },
  })
  onTestFinished(() => following.close())
  await eventually('it has ended', () => lines.some(({ msg }) => msg === 'follow.ended'))
  await publish(4)
  expect(seen).toEqual([0, 1])
  expect([following.current(), await following.caughtUp()]).toEqual([false, false])
})

test('closed while the registry is away it ends, and gives nothing afterwards', async () => {
  const { parts, lines, publish } = await openWorld(registry(() => true))
  await publish(1)
  const seen: unknown[] = []
  const following = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    onMessage: (message) => void seen.push(message),
    onFault: (record) => void seen.push(record),
  })
  await eventually('it waits', () => lines.some(({ msg }) => msg === 'follow.waiting'))
  await following.close()
  expect(seen).toEqual([])
})

test('many small records leave the loop to others', async () => {
  const { parts, publish } = await openWorld()
  await publish(...Array.from({ length: 20_000 }, (_, n) => n))
  let turns = 0
  let isOver = false
  function count(): void {
    turns++
    if (!isOver) setImmediate(count)
  }
  let read = 0
  const following = await followTopic(parts, vectorsProgress, {
    from: 'beginning',
    onMessage: () => void read++,
  })
  onTestFinished(() => following.close())
  setImmediate(count)
  await following.ready
  isOver = true
  expect(read).toBe(20_000)
  // 256 KiB of records of about 150 bytes are in a turn, or 5 ms.
  expect(turns).toBeGreaterThanOrEqual(8)
})
