/** The points of a fixture for upgrades: plain ones, overwritten, deleted and odd ones, with vectors made from seeds. */

import type { JsonValue } from '#client/client.ts'
import type { FixturePoint } from './manifest.ts'

type Payload = { [key: string]: JsonValue }

const dimension = 1536
const weights = 12

/** The vector of a seed: twelve weights in sixteenths, zero elsewhere. Fixtures rely on it: it never changes. */
export function seededVector(seed: number): number[] {
  const vector = new Array<number>(dimension).fill(0)
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
  for (let n = 0; n < weights; n++) vector[next() % dimension] = ((next() % 31) - 15 || 16) / 16
  return vector
}

/** The points written first; some of them are overwritten or deleted later. */
export function firstPoints(): FixturePoint[] {
  return [...posts(1), ...knowledge(), ...odd(), ...notes()]
}

/** Points that overwrite earlier ones. */
export function overwritingPoints(): FixturePoint[] {
  return posts(2).slice(0, 30)
}

/** Deleted and written again. */
export function returningPoints(): FixturePoint[] {
  return posts(3).slice(90, 93)
}

export function deletedPoints(): { collection: string; id: string }[] {
  return posts(1)
    .slice(80, 100)
    .map(({ collection, id }) => ({ collection, id }))
    .concat([{ collection: 'almemsha', id: 'gone/__proto__' }])
}

/** Points that must be found in the end. */
export function lastPoints(): FixturePoint[] {
  const points = new Map<string, FixturePoint>()
  const put = (point: FixturePoint) => points.set(`${point.collection}/${point.id}`, point)
  firstPoints().forEach(put)
  overwritingPoints().forEach(put)
  for (const { collection, id } of deletedPoints()) points.delete(`${collection}/${id}`)
  returningPoints().forEach(put)
  return [...points.values()]
}

/** Points that must not be found in the end. */
export function goneForGood(): { collection: string; id: string }[] {
  const back = new Set(returningPoints().map(({ id }) => id))
  return deletedPoints().filter(({ id }) => !back.has(id))
}

function posts(revision: number): FixturePoint[] {
  return Array.from({ length: 100 }, (_, n) => ({
    collection: 'posts',
    id: `post-${String(n).padStart(3, '0')}`,
    seed: revision * 10_000 + n,
    payload: { title: `Post ${n}, revision ${revision}`, revision, even: n % 2 === 0 },
  }))
}

const statuses = ['active', 'draft', 'archived']

function knowledge(): FixturePoint[] {
  return Array.from({ length: 100 }, (_, n) => ({
    collection: 'knowledgebase',
    id: `kb-${n}`,
    seed: 50_000 + n,
    payload: {
      title: `The harbour master's page ${n}`,
      status: statuses[n % 3]!,
      tags: n % 4 === 0 ? ['runbook', `page-${n}`] : ['page'],
      mind_path: `runbooks/harbour/${n % 5}`,
      updated_at: new Date(Date.UTC(2026, 0, 1 + n)).toISOString(),
      pages: n,
    },
  }))
}

function notes(): FixturePoint[] {
  return Array.from({ length: 12 }, (_, n) => ({
    collection: 'fleet_notes',
    id: `own-${n}`,
    seed: 70_000 + n,
    payload: { title: `A note of an agent ${n}`, status: 'active', tags: ['own', 'scout'] },
  }))
}

const oddIds = [
  '__proto__',
  'constructor',
  'a/b/c',
  ' with spaces ',
  `it's "quoted" \\ and $1`,
  'dotted.id',
  '灯台-🐋',
  'é',
  'e\u0301',
  'line\nbreak\ttab',
  '%2F?&#',
  'x'.repeat(512),
  'gone/__proto__',
]

/** Parsed, so that `__proto__` is a key like the others. */
const oddPayloads = [
  '{"__proto__": {"polluted": true}, "constructor": 1, "toString": "text"}',
  '{"dotted.key": "found", "dotted": {"key": "another"}, "": "empty key"}',
  '{"ключ": "значение", "鍵": "🗝", "e\\u0301": 1, "é": 2}',
  '{"it\'s": "a \'quote\'", "\\"double\\"": "\\\\ and $1", "line\\nbreak": "\\t"}',
  '{"big": 9007199254740991, "small": 5e-324, "tenth": 0.1, "huge": 1.7976931348623157e308, "negative": -1.5}',
  '{"nothing": null, "yes": true, "no": false, "list": [1, "two", [3, {"four": null}], {}], "empty": []}',
  '{"nul": "a\\u0000b", "title": 5, "tags": [1, "one"], "updated_at": "no date"}',
  '{}',
]

function odd(): FixturePoint[] {
  const named = oddIds.map((id, n) => ({ id, payload: oddPayloads[n % oddPayloads.length]! }))
  const nested = { id: 'nested', payload: `${'{"in":'.repeat(60)}1${'}'.repeat(60)}` }
  return [...named, nested].map(({ id, payload }, n) => ({
    collection: 'almemsha',
    id,
    seed: 60_000 + n,
    payload: JSON.parse(payload) as Payload,
  }))
}
