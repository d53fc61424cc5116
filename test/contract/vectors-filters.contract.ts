/** Promises of every vector engine about filters: any payload key, by value and type, the same everywhere. */

import { expect, test } from 'vitest'
import { compileFilter } from '#engines/vectors/filter.ts'
import type { Filter, FilterCondition, Payload, VectorStore } from '#engines/vectors/port.ts'
import { createRandom, deleteOf } from '#test/support/vectors.ts'
import type { VectorsContext } from './vectors-harness.ts'

type Value = string | number | boolean

/** Payloads by id, as JSON text: `__proto__` must be an own key. */
const payloads: Record<string, string> = {
  plain: '{"status":"active","tags":["red","green"],"n":1.5,"flag":true,"one":1,"zero":0}',
  typed: '{"status":"resolved","n":"1.5","flag":"true","one":"1","zero":false}',
  nested: '{"a":{"b":{"c":"deep"},"list":[{"c":"in list"},"x",2]},"one":1.0,"negative":-7}',
  dotted: '{"a.b.c":"deep","a":{"b.c":"deep"},"empty":{}}',
  hostile: `{"__proto__":"p","constructor":"c","":"empty","quote":"x' OR 1=1","nul":"a\\u0000b","emoji":"😀","toString":1}`,
  arrays:
    '{"tags":["green","blue","blue"],"mixed":[1,"1",true,null,1.5],"nestedList":[["inner"],"outer"],"status":["active"]}',
  odd:
    '{"a":{"":{"":"double empty"}},"long":"' +
    'l'.repeat(5000) +
    '","big":9007199254740991,"tiny":1e-7,"none":null}',
}

const cases: [string, [string, Value][], string[]][] = [
  ['a string', [['status', 'resolved']], ['typed']],
  ['a string, also as an element of an array', [['status', 'active']], ['plain', 'arrays']],
  ['an element of an array', [['tags', 'green']], ['plain', 'arrays']],
  ['an element that comes twice', [['tags', 'blue']], ['arrays']],
  [
    'two conditions on one array',
    [
      ['tags', 'green'],
      ['tags', 'red'],
    ],
    ['plain'],
  ],
  [
    'the same condition twice',
    [
      ['tags', 'red'],
      ['tags', 'red'],
    ],
    ['plain'],
  ],
  ['a number with a fraction, not its text', [['n', 1.5]], ['plain']],
  ['text that looks like a number', [['n', '1.5']], ['typed']],
  ['a boolean, not its text', [['flag', true]], ['plain']],
  ['text that looks like a boolean', [['flag', 'true']], ['typed']],
  ['1 and 1.0 alike, not "1"', [['one', 1]], ['plain', 'nested']],
  ['0, not false', [['zero', 0]], ['plain']],
  ['-0 as 0', [['zero', -0]], ['plain']],
  ['false, not 0', [['zero', false]], ['typed']],
  ['a negative number', [['negative', -7]], ['nested']],
  ['a large integer', [['big', 9007199254740991]], ['odd']],
  ['a tiny number', [['tiny', 0.0000001]], ['odd']],
  ['a path through objects', [['a.b.c', 'deep']], ['nested']],
  ['a path to an array', [['a.list', 'x']], ['nested']],
  ['no path through arrays', [['a.list.c', 'in list']], []],
  ['no index into arrays', [['a.list.0', 'x']], []],
  ['no key that has a dot itself', [['a.b.c', 'nothing']], []],
  ['elements of mixed arrays by type: number', [['mixed', 1]], ['arrays']],
  ['elements of mixed arrays by type: string', [['mixed', '1']], ['arrays']],
  ['elements of mixed arrays by type: boolean', [['mixed', true]], ['arrays']],
  ['elements of arrays in arrays not', [['nestedList', 'inner']], []],
  ['an object not as text', [['empty', '[object Object]']], []],
  ['null not as text', [['none', 'null']], []],
  ['the key __proto__', [['__proto__', 'p']], ['hostile']],
  ['the key constructor', [['constructor', 'c']], ['hostile']],
  ['the empty key', [['', 'empty']], ['hostile']],
  ['empty keys in a path', [['a..', 'double empty']], ['odd']],
  ['a quote, literally', [['quote', "x' OR 1=1"]], ['hostile']],
  ['a NUL', [['nul', 'a\0b']], ['hostile']],
  ['an emoji', [['emoji', '😀']], ['hostile']],
  ['inherited properties not', [['toString.name', 'toString']], []],
  ['the length of an array not', [['tags.length', 2]], []],
  ['a long value', [['long', 'l'.repeat(5000)]], ['odd']],
  ['a missing key', [['missing', 'x']], []],
  [
    'several conditions',
    [
      ['status', 'active'],
      ['tags', 'green'],
      ['n', 1.5],
      ['flag', true],
    ],
    ['plain'],
  ],
]

const is = (key: string, value: Value): FilterCondition => ({ key, match: { value } })

/** Conditions that no point may meet, and the payloads that are left. */
const excluding: [string, Filter, string[]][] = [
  ['a missing key meets no condition', { must: [], must_not: [is('missing', 'x')] }, Object.keys(payloads)],
  [
    'an element of an array, and a payload without the key',
    { must: [], must_not: [is('tags', 'green')] },
    ['typed', 'nested', 'dotted', 'hostile', 'odd'],
  ],
  [
    'any of several',
    { must: [], must_not: [is('tags', 'green'), is('n', '1.5'), is('a.b.c', 'deep')] },
    ['dotted', 'hostile', 'odd'],
  ],
  [
    'another type does not',
    { must: [is('one', 1)], must_not: [is('n', '1.5'), is('flag', 'true')] },
    ['plain', 'nested'],
  ],
  ['both lists', { must: [is('status', 'active')], must_not: [is('tags', 'red')] }, ['arrays']],
  ['the same condition in both', { must: [is('one', 1)], must_not: [is('one', 1)] }, []],
  ['an empty list', { must: [is('one', 1)], must_not: [] }, ['plain', 'nested']],
]

export function describeVectorFilters({ fresh, vector, upsert }: VectorsContext): void {
  async function load(): Promise<{ store: VectorStore; name: string }> {
    const { store, name } = await fresh()
    const points = Object.entries(payloads).map(([id, text], i) => upsert(id, vector(1, i), JSON.parse(text)))
    await store.apply(name, points)
    return { store, name }
  }

  test('search, scroll and count agree on what matches: any key, by value and type', async () => {
    const { store, name } = await load()
    for (const [what, conditions, expected] of cases) {
      const filter = { must: conditions.map(([key, value]) => ({ key, match: { value } })) }
      const found = await store.search(name, { vector: vector(1), limit: 10, filter })
      expect(found.hits.map((hit) => hit.id).sort(), what).toEqual([...expected].sort())
      const page = await store.scroll(name, { limit: 10, filter })
      expect(page.points.map((point) => point.id).sort(), what).toEqual([...expected].sort())
      expect(await store.count(name, filter), what).toBe(expected.length)
    }
  })

  test('search, scroll and count leave out what meets a condition of must_not', async () => {
    const { store, name } = await load()
    for (const [what, filter, expected] of excluding) {
      const found = await idsOf(store, name, filter)
      expect(found, what).toEqual([...expected].sort())
    }
  })

  test('what a filter finds is what its plain meaning says, with both lists, whatever the payloads', async () => {
    const { store, name } = await fresh()
    const next = createRandom(39)
    const random = (below: number) => Math.floor(next() * below)
    const some = <T>(from: readonly T[]) => from[random(from.length)]!
    const values: Value[] = [0, 1, '1', 'x', true, 'true', false]
    const keys = ['a', 'b', 'a.b', '']
    const condition = () => is(some(keys), some(values))
    const payloadOf = (): Payload => {
      const value = () => some<Payload[string]>([...values, null, [1, 'x'], [], { b: some(values) }])
      return Object.fromEntries(keys.filter(() => random(2) === 0).map((key) => [key, value()]))
    }
    const points = Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`p${n}`, payloadOf()]))
    // Payloads without a word, and with more words than the embedded engine keeps.
    points.bare = {}
    points.wide = { b: Array.from({ length: 600 }, (_, n) => n), a: 'x' }
    await store.apply(
      name,
      Object.entries(points).map(([id, payload], n) => upsert(id, vector(1, n), payload)),
    )
    for (let round = 0; round < 60; round++) {
      const filter = {
        must: Array.from({ length: random(3) }, condition),
        must_not: Array.from({ length: random(4) }, condition),
      }
      const expected = Object.keys(points).filter((id) => compileFilter(filter)(points[id]!))
      expect(await idsOf(store, name, filter), JSON.stringify(filter)).toEqual(expected.sort())
    }
  }, 60_000)

  test('nearly all or hardly any points may be left out: the rest is complete, and follows overwrites', async () => {
    const { store, name, place } = await fresh()
    const total = 2500
    for (let i = 0; i < total; i += 500) {
      const part = Array.from({ length: 500 }, (_, j) => i + j)
      await store.apply(
        name,
        part.map((n) =>
          upsert(`p${n}`, vector(1, n, n % 7), n % 25 === 0 ? {} : { kind: `k${n % 3}`, all: 1 }),
        ),
      )
    }
    const kinds = ['k0', 'k1', 'k2'].map((kind) => is('kind', kind))
    const rest = { must: [], must_not: kinds }
    const expected = (count: number) => Array.from({ length: count }, (_, n) => `p${n * 25}`).sort()
    expect(await idsOf(store, name, rest)).toEqual(expected(100))
    expect(await idsOf(store, name, { must: [is('all', 1)], must_not: kinds.slice(1) })).toHaveLength(800)
    const most = { must: [], must_not: [is('kind', 'k1')] }
    expect(await store.count(name, most)).toBe(total - 800)
    const { hits, eligible } = await store.search(name, { vector: vector(1), limit: 50, filter: most })
    expect(hits.length).toBe(50)
    expect(hits.every((hit) => hit.payload!.kind !== 'k1')).toBe(true)
    expect(eligible).toBe(total - 800)

    await store.apply(name, [
      upsert('p0', vector(1), { kind: 'k0' }),
      deleteOf('p25'),
      upsert('p1', vector(1), { kind: 'other' }),
      upsert('new', vector(1, 1), {}),
      upsert('p2', vector(1), { kind: ['k1', 'k9'] }),
    ])
    const after = ['new', 'p1', ...expected(100).filter((id) => id !== 'p0' && id !== 'p25')].sort()
    expect(await idsOf(store, name, rest)).toEqual(after)
    await store.close()
    expect(await idsOf(await place.open(), name, rest)).toEqual(after)
  }, 60_000)

  test('a filter without conditions matches everything', async () => {
    const { store, name } = await load()
    const everything = Object.keys(payloads).length
    expect(await store.count(name, { must: [] })).toBe(everything)
    expect(
      (await store.search(name, { vector: vector(1), limit: 100, filter: { must: [] } })).hits.length,
    ).toBe(everything)
    expect((await store.scroll(name, { limit: 100, filter: { must: [] } })).points.length).toBe(everything)
  })

  test('a filter follows an overwrite', async () => {
    const { store, name } = await fresh()
    const matching = (value: string) => store.count(name, { must: [{ key: 'status', match: { value } }] })
    await store.apply(name, [upsert('a', vector(1), { status: 'active' })])
    expect([await matching('active'), await matching('resolved')]).toEqual([1, 0])
    await store.apply(name, [upsert('a', vector(1), { status: 'resolved' })])
    expect([await matching('active'), await matching('resolved')]).toEqual([0, 1])
    const filter = { must: [{ key: 'status', match: { value: 'active' } }] }
    expect((await store.search(name, { vector: vector(1), limit: 3, filter })).hits).toEqual([])
  })

  test('payloads with thousands of values and filters with many conditions work', async () => {
    const { store, name } = await fresh()
    const wide = Array.from({ length: 5000 }, (_, i) => i)
    const keys = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, i]))
    await store.apply(name, [
      upsert('wide', vector(1), { wide, kind: 'w' }),
      upsert('other', vector(1, 1), { wide: wide.slice(0, 50), kind: 'w' }),
      upsert('keys', vector(0, 1), keys),
    ])
    const ids = async (conditions: [string, Value][]) => {
      const filter = { must: conditions.map(([key, value]) => ({ key, match: { value } })) }
      const { hits } = await store.search(name, { vector: vector(1), limit: 5, filter })
      expect(await store.count(name, filter)).toBe(hits.length)
      expect((await store.scroll(name, { limit: 5, filter })).points.length).toBe(hits.length)
      return hits.map((hit) => hit.id)
    }
    expect(await ids([['wide', 4999]])).toEqual(['wide'])
    expect(
      await ids([
        ['wide', 49],
        ['kind', 'w'],
      ]),
    ).toEqual(['wide', 'other'])
    expect(await ids([['wide', 5000]])).toEqual([])
    const hundred = Object.entries(keys)
    expect(await ids(hundred)).toEqual(['keys'])
    expect(await ids([...hundred.slice(0, 99), ['k99', 'no']])).toEqual([])
  })

  test('filters on large sets: counts are exact, hits all match', async () => {
    const { store, name } = await fresh()
    for (let i = 0; i < 3000; i += 500) {
      const part = Array.from({ length: 500 }, (_, j) => i + j)
      await store.apply(
        name,
        part.map((n) =>
          upsert(`p${n}`, vector(1, n, n % 7), { half: n % 2 === 0, seven: n % 7, all: 'yes' }),
        ),
      )
    }
    const filter = {
      must: [
        { key: 'half', match: { value: true } },
        { key: 'all', match: { value: 'yes' } },
      ],
    }
    expect(await store.count(name, filter)).toBe(1500)
    const both = { must: [...filter.must, { key: 'seven', match: { value: 3 } }] }
    expect(await store.count(name, both)).toBe(214)
    const { hits, eligible } = await store.search(name, { vector: vector(1), limit: 50, filter })
    expect(hits.length).toBe(50)
    expect(hits.every((hit) => hit.payload!.half === true)).toBe(true)
    expect(eligible).toBeGreaterThan(1000)
  })
}

/** The points that a filter finds, sorted: search, scroll and count say the same. */
export async function idsOf(store: VectorStore, name: string, filter: Filter): Promise<string[]> {
  const [{ id } = { id: '' }] = (await store.scroll(name, { limit: 1 })).points
  const [first] = await store.get(name, [id])
  const { hits } = await store.search(name, { vector: first!.vector, limit: 1000, filter })
  const ids = hits.map((hit) => hit.id).sort()
  const scrolled: string[] = []
  for (let next: string | null | undefined; next !== null; ) {
    const offset = next === undefined ? {} : { offset: next }
    const page = await store.scroll(name, { limit: 70, filter, ...offset })
    scrolled.push(...page.points.map((point) => point.id))
    next = page.next
  }
  expect(scrolled.sort()).toEqual(ids)
  expect(await store.count(name, filter)).toBe(ids.length)
  return ids
}
