/** Streams of a topic's records for programs: each record once, whatever the reader's pace, and little kept for a slow one. */

import { pino } from 'pino'
import { expect, test } from 'vitest'
import type { EventLog } from '#engines/event-log/port.ts'
import { createRecordTexts, openRecords, shownOf, streamRecords } from '#operations/topic-stream/records.ts'
import { jsonCodec, testPublisher } from '#test/support/consumer-wiring.ts'
import { eventually } from '#test/support/eventually.ts'
import { topicSpec } from '#test/support/index-writer.ts'
import { createMemoryLog } from '#test/support/memory-log.ts'
import { hubRecords } from '#topics/catalog.ts'

async function openWorld(records: number) {
  const memory = createMemoryLog()
  await memory.createTopic(topicSpec(hubRecords.name))
  let openTails = 0
  const eventLog: EventLog = {
    ...memory,
    async tail(options) {
      openTails++
      const tail = await memory.tail(options)
      let isOpen = true
      const close = () => {
        if (isOpen) openTails--
        isOpen = false
        return tail.close()
      }
      return { ...tail, close }
    },
  }
  let decoded = 0
  const codec = {
    ...jsonCodec,
    decode: ((topic, record) => {
      decoded++
      return jsonCodec.decode(topic, record)
    }) as typeof jsonCodec.decode,
  }
  const append = (from: number, to: number) =>
    memory.append(
      hubRecords.name,
      0,
      Array.from({ length: to - from }, (_, i) => ({
        key: Buffer.from(`note/${from + i}`),
        value: Buffer.from(JSON.stringify({ id: from + i })),
      })),
    )
  await append(0, records)
  const log = pino({ level: 'silent' })
  const platform = { engines: { eventLog }, codec, publisher: testPublisher(eventLog, 1), log }
  const open = (from = 'beginning') => openRecords(platform, { topic: hubRecords.name, from, field: 'from' })
  return { open, append, openTails: () => openTails, decoded: () => decoded }
}

test('a reader without room has nothing kept for it, and goes on where it was when it has room again', async () => {
  const world = await openWorld(10)
  const opened = await world.open()
  const stop = new AbortController()
  const seen: number[] = []
  let roomy = Promise.withResolvers<void>()
  roomy.resolve()
  const over = streamRecords(
    opened,
    {
      show: (record) => shownOf(opened, record),
      room: () => roomy.promise,
      record(_, { value }) {
        seen.push((value as { id: number }).id)
        if (seen.length === 4) roomy = Promise.withResolvers()
      },
    },
    { signal: stop.signal },
  )
  await eventually('it has taken four', () => seen.length === 4)
  await eventually('its read-ahead is gone', () => world.openTails() === 0)
  await world.append(10, 20)
  expect(seen).toHaveLength(4)
  roomy.resolve()
  await eventually('it has all', () => seen.length === 20)
  expect(seen).toEqual(Array.from({ length: 20 }, (_, id) => id))
  stop.abort()
  await over
  expect(world.openTails()).toBe(0)
})

test('a text is made once for readers at the same place', async () => {
  const world = await openWorld(50)
  const texts = createRecordTexts()
  const read = async () => {
    const opened = await world.open()
    const seen: string[] = []
    await streamRecords(
      opened,
      {
        show: (record) => texts.of(opened, record),
        record: (_, text) => void seen.push(text),
      },
      { signal: new AbortController().signal, follow: false },
    )
    return seen
  }
  const all = await Promise.all([read(), read(), read(), read()])
  expect(all.map(({ length }) => length)).toEqual([50, 50, 50, 50])
  expect(world.decoded()).toBe(50)
  expect(JSON.parse(all[3]![7]!)).toMatchObject({ offset: 7, value: { id: 7 } })
})

test('what the reader throws ends it, and the log is left', async () => {
  const world = await openWorld(5)
  const opened = await world.open()
  const reading = streamRecords(
    opened,
    {
      show: (record) => shownOf(opened, record),
      record() {
        throw new Error('the target is full')
      },
    },
    { signal: new AbortController().signal },
  )
  await expect(reading).rejects.toThrow('the target is full')
  expect(world.openTails()).toBe(0)
})
