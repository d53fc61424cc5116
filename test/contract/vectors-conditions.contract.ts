/** Promises of every vector engine about conditions of filters besides equality, and about filters within filters. */

import { expect, test } from 'vitest'
import type { Filter, FilterCondition, FilterValue, Payload } from '#engines/vectors/port.ts'
import { eventually } from '#test/support/eventually.ts'
import { plainlyMatches } from '#test/support/plain-filter.ts'
import { createRandom, deleteOf } from '#test/support/vectors.ts'
import { idsOf } from './vectors-filters.contract.ts'
import type { VectorsContext } from './vectors-harness.ts'

/** Payloads by id, as JSON text: `__proto__` must be an own key. */
const payloads: Record<string, string> = {
  active: '{"status":"active","n":1,"at":"2026-01-01T00:00:00Z","title":"The harbour master\'s house"}',
  open: '{"status":"open","n":2.5,"at":"2026-01-01T02:00:00+02:00","title":"Straße am Hafen"}',
  closed: '{"status":"closed","n":"3","at":"2026-02-01","title":["Été au port","Lighthouse Keeper"]}',
  list: '{"status":["open","closed"],"n":[5,-1],"at":["yesterday","2026-03-01T10:00:00.123456Z"]}',
  empty: '{"status":null,"n":[],"title":""}',
  missing: '{"__proto__":{"n":4},"a":{"b":{"n":7}},"title":"東京タワー 港口"}',
  odd: '{"status":[null],"n":[null,true],"a":[{"n":7}],"a.b":{"n":7},"title":"fooBar C++ x"}',
  object: '{"status":{"now":"open"},"n":{"n":1},"at":1767225600000,"title":12}',
}

const match = (key: string, value: FilterValue): FilterCondition => ({ key, match: { value } })
const any = (key: string, ...values: FilterValue[]): FilterCondition => ({ key, match: { any: values } })
const except = (key: string, ...values: FilterValue[]): FilterCondition => ({
  key,
  match: { except: values },
})
const text = (key: string, words: string): FilterCondition => ({ key, match: { text: words } })
const empty = (key: string): FilterCondition => ({ is_empty: { key } })
type Range = Extract<FilterCondition, { range: unknown }>['range']
const range = (key: string, bounds: Range): FilterCondition => ({ key, range: bounds })

const cases: [string, Filter, string[]][] = [
  ['one of several values', { must: [any('status', 'active', 'open')] }, ['active', 'open', 'list']],
  ['one of several, by type', { must: [any('n', 2.5, 3)] }, ['open']],
  [
    'a value that is none of these, also next to one that is',
    { must: [except('status', 'open', 'active')] },
    ['closed', 'list', 'object'],
  ],
  [
    'none of these: types that differ, not null alone',
    { must: [except('n', 1, 2.5)] },
    ['closed', 'list', 'odd', 'object'],
  ],
  [
    'not one of several',
    { must_not: [any('status', 'active', 'open', 'closed')] },
    ['empty', 'missing', 'odd', 'object'],
  ],
  ['a range of numbers', { must: [range('n', { gte: 1, lt: 5 })] }, ['active', 'open']],
  ['bounds that are in, and out', { must: [range('n', { gt: 1, lte: 5 })] }, ['open', 'list']],
  ['a single element must be within', { must: [range('n', { gt: -1, lt: 5 })] }, ['active', 'open']],
  ['numbers beyond all', { must: [range('n', { gt: 1e300 })] }, []],
  ['negative numbers', { must: [range('n', { lt: 0 })] }, ['list']],
  ['a path through objects', { must: [range('a.b.n', { gte: 7, lte: 7 })] }, ['missing']],
  ['the key __proto__', { must: [range('__proto__.n', { gte: 4 })] }, ['missing']],
  [
    'times in any offset',
    { must: [range('at', { gte: '2026-01-01T00:00:00Z', lte: '2026-01-01T01:00:00+01:00' })] },
    ['active', 'open'],
  ],
  [
    'times: a date alone',
    { must: [range('at', { gt: '2026-01-31T23:59:59Z', lt: '2026-02-01T00:00:01Z' })] },
    ['closed'],
  ],
  [
    'times to the microsecond',
    { must: [range('at', { gt: '2026-03-01T10:00:00.123455Z', lt: '2026-03-01T10:00:00.123457Z' })] },
    ['list'],
  ],
  [
    'numbers are no times',
    { must: [range('at', { lt: '2100-01-01' })] },
    ['active', 'open', 'closed', 'list'],
  ],
  ['times are no numbers', { must: [range('at', { gt: 0 })] }, ['object']],
  ['words in any case', { must: [text('title', 'HARBOUR house')] }, ['active']],
  ['parts of words are none', { must: [text('title', 'harb')] }, []],
  ['marks and forms', { must: [text('title', 'strasse')] }, ['open']],
  ['marks and forms of an element', { must: [text('title', 'ETE')] }, ['closed']],
  ['words of several elements', { must: [text('title', 'keeper port')] }, ['closed']],
  ['words without spaces', { must: [text('title', '東京')] }, ['missing']],
  ['names and their parts', { must: [text('title', 'foobar'), text('title', 'Bar')] }, ['odd']],
  ['a sign is part of the word', { must: [text('title', 'C++')] }, ['odd']],
  ['numbers have no words', { must: [text('title', '12')] }, []],
  ['missing, null or an empty array', { must: [empty('n')] }, ['empty', 'missing']],
  ['an array with null is not empty', { must: [empty('status')] }, ['empty', 'missing']],
  ['an object is not empty', { must_not: [empty('a')] }, ['missing', 'odd']],
  ['an empty text is not empty', { must: [empty('title')] }, ['list']],
  ['one of should', { should: [match('status', 'active'), range('n', { gte: 5 })] }, ['active', 'list']],
  ['should without conditions', { should: [], must: [match('n', 1)] }, ['active']],
  [
    'must, should and must_not',
    {
      must: [range('n', { gt: 0 })],
      should: [match('status', 'open'), match('status', 'active')],
      must_not: [text('title', 'hafen')],
    },
    ['active', 'list'],
  ],
  [
    'filters within filters',
    {
      should: [
        { must: [match('status', 'open'), range('n', { gte: 5 })] },
        { must: [{ should: [empty('n'), match('n', '3')], must_not: [empty('title')] }] },
      ],
      must_not: [{ must: [text('title', 'lighthouse'), { must_not: [match('n', '3')] }] }],
    },
    ['list', 'closed', 'empty', 'missing'],
  ],
  ['an empty filter within one', { must_not: [{}] }, []],
]

export function describeVectorConditions({ fresh, vector, upsert }: VectorsContext): void {
  test('every kind of condition, in must, should, must_not and within each other', async () => {
    const { store, name } = await fresh()
    const points = Object.entries(payloads).map(([id, text], i) => upsert(id, vector(1, i), JSON.parse(text)))
    await store.apply(name, points)
    for (const [what, filter, expected] of cases) {
      expect(await idsOf(store, name, filter), what).toEqual([...expected].sort())
    }
  })

  test('random filters over random payloads find the points of a plain reading', async () => {
    const { store, name } = await fresh()
    const next = createRandom(42)
    const random = (below: number) => Math.floor(next() * below)
    const some = <T>(from: readonly T[]) => from[random(from.length)]!
    const times = [
      '2026-01-01T00:00:00Z',
      '2026-01-01T01:00:00+01:00',
      '2026-02-28',
      '2026-02-30',
      '1999-12-31',
    ]
    const texts = ['ein Boot', 'Boot', 'ÉTÉ', 'ete au port', '', '😀', 'été 3']
    const values: FilterValue[] = [0, -1, 1.5, 3, '3', 'x', true, false, ...times, ...texts]
    const keys = ['a', 'b', 'a.b', 'a.b.c', '']
    const payloadOf = (): Payload => {
      const value = (): Payload[string] =>
        some<Payload[string]>([
          ...values,
          null,
          [],
          [null],
          [some(values), some(values), null],
          { b: some(values), '': some(values) },
          { b: { c: some(values) } },
          [[some(values)], { b: 1 }],
        ])
      return Object.fromEntries(['a', 'b', ''].filter(() => random(3) > 0).map((key) => [key, value()]))
    }
    const condition = (depth: number): FilterCondition => {
      const key = some(keys)
      const kinds: (() => FilterCondition)[] = [
        () => match(key, some(values)),
        () => any(key, some(values), some(values)),
        () => except(key, some(values), some(values)),
        () => text(key, some(['boot', 'été', 'ETE Port', '3'])),
        () => empty(key),
        () =>
          range(key, {
            [some(['gt', 'gte'])]: some([-1, 0, 1.5]),
            ...(random(2) ? { lt: some([1.5, 4]) } : {}),
          }),
        () =>
          range(key, { [some(['gt', 'gte', 'lt', 'lte'])]: some(['2026-01-01T00:00:00Z', '2026-02-28']) }),
        () => filterOf(depth + 1),
      ]
      return kinds[random(depth === 3 ? kinds.length - 1 : kinds.length)]!()
    }
    const filterOf = (depth: number): Filter => ({
      ...(random(2) ? { must: Array.from({ length: random(3) }, () => condition(depth)) } : {}),
      ...(random(3) ? {} : { should: Array.from({ length: random(4) }, () => condition(depth)) }),
      ...(random(2) ? { must_not: Array.from({ length: random(3) }, () => condition(depth)) } : {}),
    })
    const points: Record<string, Payload> = Object.fromEntries(
      Array.from({ length: 150 }, (_, n) => [`p${n}`, payloadOf()]),
    )
    points.bare = {}
    points.wide = { b: Array.from({ length: 600 }, (_, n) => n), a: 'ein Boot' }
    await store.apply(
      name,
      Object.entries(points).map(([id, payload], n) => upsert(id, vector(1, n), payload)),
    )
    for (let round = 0; round < 100; round++) {
      const filter = filterOf(1)
      const expected = Object.keys(points).filter((id) => plainlyMatches(points[id]!, filter))
      expect(await idsOf(store, name, filter), JSON.stringify(filter)).toEqual(expected.sort())
    }
  }, 120_000)

  test('a filter follows overwrites and deletions, in few and in many points', async () => {
    const { store, name, place } = await fresh()
    const total = 2_000
    for (let from = 0; from < total; from += 500) {
      const part = Array.from({ length: 500 }, (_, i) => from + i)
      await store.apply(
        name,
        part.map((n) => upsert(`p${n}`, vector(1, n, n % 7), { n, title: `text ${n % 50}` })),
      )
    }
    const upper: Filter = { must: [range('n', { gte: total - 700 })] }
    const few: Filter = { must: [range('n', { lt: 20 })], must_not: [text('title', '3')] }
    expect(await store.count(name, upper)).toBe(700)
    const near = await store.search(name, { vector: vector(1, total, total % 7), limit: 20, filter: upper })
    expect(near.hits).toHaveLength(20)
    expect(near.hits.every(({ payload }) => (payload!.n as number) >= total - 700)).toBe(true)
    // The nearest of all are left out.
    const far = await store.search(name, { vector: vector(1, 0), limit: 20, filter: upper })
    expect(far.hits[0]!.id).toBe('p1300')
    const ids = Array.from({ length: 20 }, (_, n) => `p${n}`).filter((id) => id !== 'p3')
    expect(await idsOf(store, name, few)).toEqual(ids.sort())

    await store.apply(name, [
      upsert('p3', vector(1), { n: 5, title: 'other' }),
      upsert('p4', vector(1), { n: 5_000 }),
      deleteOf('p5'),
      upsert('new', vector(1, 1), { n: -1 }),
    ])
    const after = [...ids.filter((id) => id !== 'p4' && id !== 'p5'), 'p3', 'new'].sort()
    expect(await idsOf(store, name, few)).toEqual(after)
    expect(await store.count(name, upper)).toBe(701)
    await store.close()
    const again = await place.open()
    expect(await idsOf(again, name, few)).toEqual(after)
    expect(await again.count(name, upper)).toBe(701)
  }, 120_000)

  test('points of an earlier release meet every kind of condition once the engine was maintained', async () => {
    const former = Object.entries(payloads).map(([id, json], n) => ({
      id,
      vector: vector(1, n),
      payload: JSON.parse(json) as Payload,
    }))
    const { store, name } = await fresh(former)
    const equal: Filter = { must: [match('status', 'open')] }
    expect(await idsOf(store, name, equal)).toEqual(['list', 'open'])
    const asked: Filter = { must: [range('n', { gte: 1 })], must_not: [text('title', 'hafen')] }
    const early = await store.count(name, asked).catch((error: { code?: string }) => error.code)
    expect([2, 'vector_engine_unavailable']).toContain(early)
    await store.apply(name, [upsert('closed', vector(1), { n: 1 })])
    await store.forgetDeletions(1_000_000)
    await eventually('all points are prepared', async () => {
      const found = await store.count(name, asked).catch(() => 0)
      return found === 3
    })
    expect(await idsOf(store, name, asked)).toEqual(['active', 'closed', 'list'])
    expect((await store.get(name, ['open']))[0]!.payload).toEqual(JSON.parse(payloads.open!))
  })

  test('indexes of keys change no answer, also in later generations and in collections without points', async () => {
    const { store, name } = await fresh()
    const types = {
      keyword: ['status', 'n'],
      number: ['n', 'a.b.n'],
      time: ['at'],
      text: ['title', 'status'],
    } as const
    const makeIndexes = async () => {
      for (const [type, keys] of Object.entries(types)) {
        for (const key of keys) await store.indexPayload(name, key, type as keyof typeof types)
      }
    }
    const points = Object.entries(payloads).map(([id, json], i) => upsert(id, vector(1, i), JSON.parse(json)))
    const check = async () => {
      for (const [what, filter, expected] of cases) {
        expect(await idsOf(store, name, filter), what).toEqual([...expected].sort())
      }
    }
    await makeIndexes()
    await store.apply(name, points)
    await makeIndexes()
    await check()
    await store.createGeneration(2)
    await store.apply(name, points, { generation: 2 })
    await store.promoteGeneration(2)
    await check()
    const own = 'tea~0a1b2c3d4e'
    await store.indexPayload(own, 'n', 'number')
    expect(await store.count(own)).toBe(0)
    await store.apply(own, points)
    expect(await idsOf(store, own, { must: [range('n', { gte: 5 })] })).toEqual(['list'])
    await store.dropCollection(own)
    await expect(store.indexPayload('no collection', 'n', 'number')).rejects.toMatchObject({
      code: 'collection_not_found',
    })
  }, 120_000)
}
