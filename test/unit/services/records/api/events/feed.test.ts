/** A stream whose reader does not keep up, and the ids of events. */

import { expect, onTestFinished, test } from 'vitest'
import { type EventStream, Json, type StreamEvent } from '#runtime/http/event-stream.ts'
import type { HubRecord } from '#schemas/types.ts'
import {
  eventIdOf,
  type Feed,
  type FeedRecord,
  readEventId,
  streamChanges,
} from '#services/records/api/events/feed.ts'

function openWorld() {
  const sent: StreamEvent[] = []
  const marked: string[] = []
  const next = [0, 0]
  const listeners = new Set<(record: FeedRecord) => void>()
  let roomy = true
  let room = Promise.withResolvers<void>()
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const feed: Feed = {
    ready: async () => {},
    position: () => ({ epoch: 1, next: [...next] }),
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    decode: async () => {
      throw new Error('nothing is read back here')
    },
    ranges: async () => [],
    follow: () => Promise.reject(new Error('nothing was missed')),
    close: async () => {},
  }
  const stream = {
    hasRoom: () => roomy,
    room: () => room.promise,
    send: (event: StreamEvent) => sent.push(event),
    mark: (id: string) => marked.push(id),
  } as Partial<EventStream> as EventStream
  return {
    sent,
    marked,
    listeners,
    stop,
    full() {
      roomy = false
      room = Promise.withResolvers()
    },
    empty() {
      roomy = true
      room.resolve()
    },
    change(partition: number, record: Partial<HubRecord> | null) {
      const offset = next[partition]!++
      for (const listener of listeners) listener({ partition, offset, record: record as HubRecord | null })
    },
    run: () =>
      streamChanges({
        feed,
        stream,
        kind: 'note',
        text: ({ id }) => new Json(JSON.stringify({ id })),
        resumed: null,
        signal: stop.signal,
      }),
  }
}

test('a slow reader gets a reset once it keeps up again, then new events', async () => {
  const world = openWorld()
  const over = world.run()
  await Promise.resolve()
  world.change(0, { kind: 'note', id: 1 })
  world.full()
  for (let id = 2; id < 5_000; id++) world.change(1, { kind: 'note', id })
  world.empty()
  await new Promise((resolve) => setImmediate(resolve))
  world.change(0, { kind: 'note', id: 7 })
  expect(world.sent).toEqual([
    { event: 'ready', id: '1.0.0', data: {} },
    { id: '1.1.0', data: new Json('{"id":1}') },
    { event: 'reset', id: eventIdOf({ epoch: 1, next: [1, 4_998] }), data: {} },
    { id: eventIdOf({ epoch: 1, next: [2, 4_998] }), data: new Json('{"id":7}') },
  ])
  world.stop.abort()
  await over
  expect(world.listeners.size).toBe(0)
})

test('changes of another kind are only marked', async () => {
  const world = openWorld()
  void world.run()
  await Promise.resolve()
  world.change(1, { kind: 'goal', id: 1 })
  world.change(1, null)
  expect(world.sent).toHaveLength(1)
  expect(world.marked).toEqual(['1.0.1', '1.0.2'])
})

test('an id is read as it was made, and nothing else is one', () => {
  for (const position of [
    { epoch: 1, next: [0, 35, 36, 2 ** 50] },
    { epoch: 9, next: [] },
  ]) {
    expect(readEventId(eventIdOf(position))).toEqual(position)
  }
  for (const id of ['', '.', '1..2', '01', '1.A', '1.2 ', '1.-2', '1.zzzzzzzzzzzzzzz']) {
    expect(() => readEventId(id), id).toThrowError(expect.objectContaining({ code: 'validation_failed' }))
  }
})
