/** The note-indexer's handler: the newest state of each note alone, and what it answers when something is away. */

import { describe, expect, test } from 'vitest'
import { openLocalEmbedder } from '#engines/embedder/local.ts'
import { AppError } from '#lib/errors.ts'
import type { Message } from '#runtime/publish/messages.ts'
import type { HubRecord } from '#schemas/types.ts'
import { createHandler, embeddedLengthMax } from '#services/records/note-indexer/service.ts'

const signal = new AbortController().signal

function record(fields: Partial<HubRecord> = {}): HubRecord {
  return {
    kind: 'note',
    id: 1,
    version: 1,
    author: 'whale',
    title: 'subject',
    text: 'body',
    priority: 'normal',
    status: 'active',
    thread_id: '0199aaaa-0000-4000-8000-000000000001',
    parent_id: null,
    created_at: 0,
    updated_at: 1_000,
    ...fields,
  }
}

interface Point {
  key: { collection: string; id: string }
  value: { payload: string; vector: Buffer } | null
  headers: Record<string, string>
}

function open(
  given: {
    rows?: [id: number, version: number][]
    embed?: (texts: string[]) => Promise<Float32Array[]>
    ping?: () => Promise<void>
    versions?: () => Promise<ReadonlyMap<number, number>>
    publish?: () => Promise<void>
  } = {},
) {
  const local = openLocalEmbedder()
  const published: Point[] = []
  const texts: string[] = []
  const handler = createHandler({
    embedder: {
      space: local.space,
      embed(some) {
        texts.push(...some)
        return (given.embed ?? local.embed)(some)
      },
      ping: given.ping ?? (async () => {}),
    },
    versionsOf: given.versions ?? (async () => new Map(given.rows ?? [])),
    writers: {
      of: () =>
        ({
          async publish(_topic: unknown, points: Point[]) {
            await given.publish?.()
            published.push(...points)
          },
        }) as never,
    },
  })
  return {
    published,
    texts,
    handle(records: (HubRecord | null)[]) {
      const messages = records.map((value, offset): Message<HubRecord> => {
        const headers = { agent: 'whale', 'request-id': 'r1', producer: 'other', 'event-id': 'e' }
        return { key: `note/${value?.id}`, value, partition: 0, offset, headers, timestamp: 0 }
      })
      return handler(messages, { signal, partition: 0 })
    },
  }
}
const kinds = (outcomes: { kind: string }[]) => outcomes.map(({ kind }) => kind)

describe('published commands', () => {
  test('the point of a note has its fields, and a vector of subject and body', async () => {
    const { handle, published, texts } = open()
    expect(kinds(await handle([record()]))).toEqual(['done'])
    expect(texts).toEqual(['subject\n\nbody'])
    const [point] = published
    expect(point!.key).toEqual({ collection: 'fleet_notes', id: 'note-1' })
    expect(JSON.parse(point!.value!.payload)).toEqual({
      title: 'subject',
      status: 'active',
      tags: ['note', 'normal', 'whale'],
      updated_at: '1970-01-01T00:00:01.000Z',
      thread_id: record().thread_id,
    })
    expect(point!.value!.vector).toHaveLength(1536 * 4)
    expect(point!.headers).toEqual({ agent: 'whale', 'request-id': 'r1' })
  })

  test('of several states of a note the newest alone, whatever their order', async () => {
    const { handle, published } = open()
    const states = [record({ version: 2, title: 'two' }), record({ version: 3, title: 'three' }), record()]
    expect(kinds(await handle(states))).toEqual(['done', 'done', 'done'])
    expect(published.map(({ value }) => JSON.parse(value!.payload).title)).toEqual(['three'])
  })

  test('a state older than its row is left to the record that follows; the same state is written again', async () => {
    const { handle, published, texts } = open({
      rows: [
        [1, 2],
        [2, 7],
      ],
    })
    await handle([record({ version: 1 }), record({ id: 2, version: 7 })])
    expect(published.map(({ key }) => key.id)).toEqual(['note-2'])
    expect(texts).toHaveLength(1)
  })

  test('an archived note is deleted; goals and records without a value are passed', async () => {
    const { handle, published, texts } = open()
    const some = [record({ status: 'archived' }), record({ kind: 'goal', id: 5 }), null]
    expect(kinds(await handle(some))).toEqual(['done', 'done', 'done'])
    expect(published.map(({ key, value }) => [key.id, value])).toEqual([['note-1', null]])
    expect(texts).toEqual([])
  })

  test('a long note is embedded by its beginning, cut between characters', async () => {
    const { handle, texts } = open()
    await handle([record({ title: 'x', text: `${'a'.repeat(embeddedLengthMax - 4)}🐋${'b'.repeat(100)}` })])
    expect(texts[0]).toHaveLength(embeddedLengthMax)
    expect(texts[0]!.isWellFormed()).toBe(true)
  })
})

describe('when something is away', () => {
  const away =
    (code: 'embedder_unavailable' | 'relational_engine_unavailable' | 'log_unavailable') => async () => {
      throw new AppError(code, 'away')
    }
  test.each([
    ['the embedder', { embed: away('embedder_unavailable') }, 'embedder'],
    ['the database', { versions: away('relational_engine_unavailable') }, 'database'],
    ['the log', { publish: away('log_unavailable') }, 'event-log'],
  ])('%s: everything waits for it', async (_, given, engine) => {
    const { handle, published } = open(given)
    expect(await handle([record()])).toMatchObject([{ kind: 'unavailable', engine }])
    expect(published).toEqual([])
  })

  const refuse = async () => {
    throw new AppError('invalid_configuration', 'The embedding endpoint answers 400.')
  }
  test('a text that the embedder refuses is looked for; an embedder that refuses all is waited for', async () => {
    expect(kinds(await open({ embed: refuse }).handle([record(), record({ id: 2 })]))).toEqual([
      'split',
      'split',
    ])
    const both = open({ embed: refuse, ping: refuse })
    expect(await both.handle([record()])).toMatchObject([{ kind: 'unavailable', engine: 'embedder' }])
  })

  test('fenced off, it waits to be called again', async () => {
    const fenced = open({
      publish: async () => {
        throw new AppError('fenced', 'another one has the name')
      },
    })
    expect(kinds(await fenced.handle([record()]))).toEqual(['unavailable'])
  })
})
