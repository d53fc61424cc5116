/** Indexes of payload keys: how the setting is read, and which are made after a start. */

import { expect, test } from 'vitest'
import type { PayloadIndexType } from '#engines/vectors/port.ts'
import { makePayloadIndexes, readPayloadIndexes } from '#services/vectors/collections/payload-indexes.ts'
import { openTestRelational } from '../../../../support/relational.ts'

test('the setting names collections, keys and types; keys may be paths and hold slashes and colons', () => {
  expect(readPayloadIndexes('')).toEqual([])
  expect(readPayloadIndexes('posts/priority:number, tea/a/b.c:d:time,')).toEqual([
    { collection: 'posts', key: 'priority', type: 'number' },
    { collection: 'tea', key: 'a/b.c:d', type: 'time' },
  ])
  for (const text of ['posts', 'posts/priority', 'posts/:number', 'Posts/n:number', 'posts/n:float']) {
    expect([text, readPayloadIndexes(text)]).toEqual([text, undefined])
  }
})

test('those of the setting and of the rows are made; a collection that is not there is passed over', async () => {
  const relational = await openTestRelational()
  await relational.query(
    `insert into platform.payload_indexes (collection, key, type, created_by) values ('posts', 'due', 'time', 'a')`,
  )
  const made: [string, string, PayloadIndexType][] = []
  const vectors = {
    async indexPayload(collection: string, key: string, type: PayloadIndexType) {
      made.push([collection, key, type])
    },
  }
  const collections = {
    list: async () => [{ name: 'tea', stored: 'tea~0a1b2c3d4e' }] as never,
  }
  const named = readPayloadIndexes('tea/n:number,gone/n:number')!
  await makePayloadIndexes(relational, vectors, { named, collections })
  expect(made).toEqual([
    ['tea~0a1b2c3d4e', 'n', 'number'],
    ['posts', 'due', 'time'],
  ])
})
