/** Payloads that are changed and points that expire, on whole platforms: in order with other writes, over rebuilds, in the log. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rebuildVectorsAction } from '#operations/rebuild.ts'
import { startSweeping } from '#services/vectors/write/sweep.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'
import { startedPlatform } from '../support/started-platform.ts'
import { keysInLog } from './collections.promises.ts'

type Started = Awaited<ReturnType<typeof startedPlatform>>
type Json = Record<string, unknown>

const sweepMs = 100

/** `engines` names empty engines, new ones at each call. */
export function describePayloadsAndExpiry(driver: string, engines: () => Promise<Record<string, string>>) {
  describe(`payloads and expiry (${driver})`, () => {
    let started: Started
    let key: string
    beforeAll(async () => {
      started = await startedPlatform(await engines(), { mirror: true, agent: { access: 'admin' } })
      key = await started.client.apiKey()
    })
    afterAll(() => started?.close())

    const ask = (path: string, body: object) => call(started.vectorUrl, `/v1/vectors/${path}`, { key, body })
    const upsert = (points: object[], collection = 'posts') => ask('upsert?wait=true', { collection, points })
    const change = (ids: string[], given: object, wait = true) =>
      ask(`payload${wait ? '?wait=true' : ''}`, { collection: 'posts', ids, ...given })
    async function payloadOf(id: string): Promise<Json | undefined> {
      const { json } = await ask('get', { collection: 'posts', ids: [id] })
      return (json.points as { payload: Json }[])[0]?.payload
    }
    const rebuild = () =>
      rebuildVectorsAction.run(operating(started.platform, new AbortController().signal), {})

    it('sets and removes keys, and leaves vectors, other keys and expiries', async () => {
      await upsert([
        {
          id: 'a',
          vector: axisVector(1, 0.2),
          payload: { n: 1, deep: { x: 1 }, gone: true },
          expires_at: '2999-01-01',
        },
        { id: 'b', text: 'a lighthouse', payload: { n: 2 } },
      ])
      const [before] = (await ask('get', { collection: 'posts', ids: ['a'] })).json.points as Json[]
      const changed = await change(['a', 'b', 'unknown', 'a'], {
        set: { deep: { y: [1, null, 'é'] }, '': '\u0000' },
        remove: ['gone', 'never'],
      })
      expect(changed).toMatchObject({
        status: 200,
        json: { status: 'applied', collection: 'posts', points: 2, unknown: 1 },
      })
      const [after] = (await ask('get', { collection: 'posts', ids: ['a'] })).json.points as Json[]
      expect(after).toEqual({ ...before, payload: { n: 1, deep: { y: [1, null, 'é'] }, '': '\u0000' } })
      expect(await payloadOf('b')).toEqual({
        n: 2,
        text: 'a lighthouse',
        deep: { y: [1, null, 'é'] },
        '': '\u0000',
      })
      const filter = { must: [{ key: 'deep.y', match: { value: 'é' } }] }
      expect((await ask('count', { collection: 'posts', filter })).json.count).toBe(2)
      const found = await ask('search', { collection: 'posts', text: 'a lighthouse', limit: 1 })
      expect(found.json).not.toHaveProperty('warnings')
      expect(found.json.results).toMatchObject([{ id: 'b', score: expect.closeTo(1, 3) }])
    })

    it('refuses what it cannot do, and names the place', async () => {
      const faults = async (given: object) => {
        const { status, json } = await change(['a'], given)
        return [
          status,
          json.code,
          ...((json.errors as { path: string }[] | undefined) ?? []).map(({ path }) => path),
        ]
      }
      expect(await faults({})).toEqual([422, 'validation_failed', ''])
      expect(await faults({ set: {}, remove: [] })).toEqual([422, 'validation_failed', ''])
      expect(await faults({ set: { text: 'new' } })).toEqual([422, 'validation_failed', '/set/text'])
      expect(await faults({ remove: ['n', 'text'] })).toEqual([422, 'validation_failed', '/remove/1'])
      expect(await faults({ set: { n: 1 }, remove: ['n'] })).toEqual([422, 'validation_failed', '/remove/0'])
      expect(await faults({ set: 'n' })).toEqual([422, 'validation_failed', '/set'])
      expect(await faults({ set: { n: 'x'.repeat(70_000) } })).toEqual([422, 'validation_failed', '/set'])
      expect(await faults({ remove: [1] })).toEqual([422, 'validation_failed', '/remove/0'])
      const reserved = { collection: 'fleet_notes', ids: ['note-1'], set: { n: 1 } }
      expect((await ask('payload', reserved)).json.code).toBe('reserved_id')
      const nowhere = { collection: 'nowhere', ids: ['a'], set: { n: 1 } }
      expect((await ask('payload', nowhere)).json.code).toBe('collection_not_found')
      expect(await change(['none', 'neither'], { set: { n: 1 } })).toMatchObject({
        status: 200,
        json: { points: 0, unknown: 2 },
      })
    })

    it('a point that would have too much keeps its payload, and the operation fails and names it', async () => {
      await upsert([
        { id: 'long', vector: axisVector(3), payload: { long: 'x'.repeat(40_000) } },
        { id: 'short', vector: axisVector(4), payload: {} },
      ])
      const set = { more: 'y'.repeat(40_000) }
      const failed = await change(['long', 'short'], { set })
      expect([failed.status, failed.json.code]).toEqual([502, 'operation_failed'])
      expect(failed.json.detail).toContain('point long: ')
      expect(Object.keys((await payloadOf('long'))!)).toEqual(['long'])
      expect(await payloadOf('short')).toEqual(set)
      // A later change is made, also on the point that was refused.
      expect((await change(['long'], { set: { n: 1 }, remove: ['long'] })).status).toBe(200)
      expect(await payloadOf('long')).toEqual({ n: 1 })
    })

    it('changes of many at once lose nothing: each key has its last value, here, in the mirror and after a rebuild', async () => {
      await upsert([{ id: 'busy', vector: axisVector(5), payload: { mark: 'busy' } }])
      const keys = Array.from({ length: 24 }, (_, n) => `k${n}`)
      const answers = await Promise.all([
        ...keys.map((name, n) => change(['busy'], { set: { [name]: n } })),
        ...keys
          .slice(0, 4)
          .map((name) => change(['busy'], { remove: [`${name}-not`], set: { [`${name}b`]: 1 } })),
      ])
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
      const expected: Json = { mark: 'busy' }
      for (const [n, name] of keys.entries()) expected[name] = n
      for (const name of keys.slice(0, 4)) expected[`${name}b`] = 1
      expect(await payloadOf('busy')).toEqual(expected)
      // An upsert in the middle replaces all before it, and changes after it are made on it.
      const mixed = await Promise.all([
        change(['busy'], { set: { early: 1 } }),
        upsert([{ id: 'busy', vector: axisVector(6), payload: { fresh: true } }]),
        change(['busy'], { set: { late: 1 } }),
      ])
      expect(mixed.map(({ status }) => status)).toEqual([200, 200, 200])
      const { early, late, ...rest } = (await payloadOf('busy'))!
      expect(rest).toEqual({ fresh: true })
      expect([early ?? 1, late ?? 1]).toEqual([1, 1])
      const held = await payloadOf('busy')
      await eventually('the mirror has it', async () => {
        const { json } = await ask('search-pg', { table: 'embeddings', vector: axisVector(6), limit: 1 })
        const [first] = json.results as { payload: Json }[]
        return JSON.stringify(sorted(first!.payload)) === JSON.stringify(sorted(held!))
      })
      await rebuild()
      expect(await payloadOf('busy')).toEqual(held)
    })

    it('a change right behind a write that nobody waited for is made on it', async () => {
      const points = Array.from({ length: 200 }, (_, n) => ({
        id: `q${n}`,
        vector: axisVector(n),
        payload: { n },
      }))
      expect((await ask('upsert', { collection: 'posts', points })).status).toBe(202)
      const ids = points.map(({ id }) => id)
      const changed = await eventually('the write is applied, and changed', async () => {
        const answer = await change(ids, { set: { more: 1 } })
        // After two seconds: clients repeat it.
        return answer.json.code === 'not_yet_applied' ? undefined : answer
      })
      expect(changed).toMatchObject({ status: 200, json: { points: 200, unknown: 0 } })
      expect(await payloadOf('q199')).toEqual({ n: 199, more: 1 })
    })

    it('a point that expires leaves every read, is deleted in the log, and comes back in no rebuild', async () => {
      const collection = 'knowledgebase'
      const soon = new Date(Date.now() + 1_500).toISOString()
      const points = Array.from({ length: 40 }, (_, n) => ({
        id: `e${n}`,
        vector: axisVector(n),
        ...(n < 30 ? { expires_at: soon } : {}),
      }))
      await upsert(points, collection)
      const count = async () => (await ask('count', { collection })).json.count
      await eventually('thirty have expired', async () => (await count()) === 10)
      await rebuild()
      expect(await count()).toBe(10)
      // Written again while the sweep goes: it stays.
      const sweeping = startSweeping(started.platform, sweepMs)
      try {
        await upsert([{ id: 'e0', vector: axisVector(0), payload: { again: true } }], collection)
        await eventually('the log has deletions', async () => {
          const keys = await keysInLog(started.platform, `${collection}/`)
          return keys.length === 11
        })
      } finally {
        await sweeping.close()
      }
      expect(await count()).toBe(11)
      const { vectors } = started.platform.engines
      await eventually(
        'nothing is left to sweep',
        async () => (await vectors.expired(collection, 10)).length === 0,
      )
      await rebuild()
      expect(await count()).toBe(11)
    })
  })
}

const sorted = (value: Json) => Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
