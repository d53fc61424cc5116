/** search-pg as agents use it: through the gateway, over what the relational-writer made of their points. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Client } from '#client/client.ts'
import { rebuildRelationalAction } from '#operations/rebuild.ts'
import type { Platform } from '#runtime/start/platform.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'

const pointsOf = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({
    id: `${prefix}-${n}`,
    vector: axisVector(n * 3, 0.2),
    payload: {
      title: `${prefix} ${n}`,
      status: n % 2 === 0 ? 'active' : 'archived',
      tags: ['all', `t${n % 3}`],
      mind_path: `notes/${n}.md`,
      updated_at: `2026-01-${String(1 + (n % 28)).padStart(2, '0')}T00:00:00.000Z`,
      extra: { n, text: "it's" },
    },
  }))

/** `environment` names empty engines. */
export function describeSearchPgFlow(
  driver: string,
  environment: () => Promise<Record<string, string>>,
): void {
  describe(`search-pg through the gateway (${driver})`, () => {
    let gateway: GatewayPlatform
    let client: Client
    let key: string
    beforeAll(async () => {
      gateway = await openGatewayPlatform(await environment(), { mirror: true })
      client = await gateway.clientOf('whale', { timeoutMs: 60_000 })
      key = await client.apiKey()
      // The mirror's first use makes its tables, which takes longer than a request may wait.
      await gateway.platform.engines.mirror.prepare()
    }, 240_000)
    afterAll(() => gateway?.close())

    /** Waits for the mirror as long as a busy machine needs; each request waits ten seconds at most. */
    async function applied(operation: string): Promise<void> {
      for (let tries = 0; ; tries++) {
        const answer = await send({ vector: axisVector(1), limit: 1, after: operation })
        if (answer.status === 200) return
        if (answer.json.code !== 'not_yet_applied' || tries > 8) throw new Error(answer.text)
      }
    }
    const send = (body: Record<string, unknown>) =>
      call(gateway.vectorUrl, '/v1/vectors/search-pg', { key, body: { table: 'embeddings', ...body } })

    test('an agent finds what it wrote, in every collection, and by SQL conditions', async () => {
      const first = await client.upsert('knowledgebase', pointsOf('kb', 30))
      const second = await client.upsert('posts', pointsOf('post', 30))
      await applied(first.operation_id)
      await applied(second.operation_id)
      const all = await client.searchPg({ vector: axisVector(12, 0.2), limit: 2, withVector: true })
      expect(all.results).toEqual(
        ['knowledgebase', 'posts'].map((collection, n) => ({
          collection,
          id: n === 0 ? 'kb-4' : 'post-4',
          score: expect.closeTo(1, 5),
          payload: pointsOf(n === 0 ? 'kb' : 'post', 5)[4]!.payload,
          vector: Array.from(Float32Array.from(axisVector(12, 0.2))),
        })),
      )
      expect(all.records_scanned).toBeGreaterThanOrEqual(2)
      expect(Number.isInteger(all.took_ms)).toBe(true)
      const filtered = await client.searchPg({
        vector: axisVector(0),
        limit: 100,
        filterSql: `collection = 'posts' AND status = 'active' AND 't2' = ANY(tags) AND updated_at < '2026-01-21'`,
        withPayload: false,
      })
      expect(filtered.results.map(({ id }) => id).sort()).toEqual(['post-14', 'post-2', 'post-8'])
      expect(filtered.results[0]).toEqual({
        collection: 'posts',
        id: expect.any(String),
        score: expect.any(Number),
      })
    }, 180_000)

    test('after an overwrite and a delete the answer is the new one', async () => {
      const [point] = pointsOf('kb', 1)
      const over = await client.upsert('knowledgebase', [{ ...point!, payload: { title: 'renewed' } }])
      await applied(over.operation_id)
      const filterSql = `title = 'renewed' AND status IS NULL`
      const { results } = await client.searchPg({ vector: axisVector(0), filterSql })
      expect(results).toEqual([expect.objectContaining({ id: 'kb-0', payload: { title: 'renewed' } })])
      const gone = await client.delete('knowledgebase', ['kb-0'])
      await applied(gone.operation_id)
      expect((await client.searchPg({ vector: axisVector(0), filterSql })).results).toEqual([])
    }, 180_000)

    test('a point shows when it expires, and past that it is not found, behind a rebuild neither', async () => {
      const expiring = (id: string, expiresAt: string) => ({
        id,
        vector: axisVector(5),
        payload: { title: 'expiring' },
        expires_at: expiresAt,
      })
      const written = await call(gateway.vectorUrl, '/v1/vectors/upsert', {
        key,
        body: {
          collection: 'posts',
          points: [expiring('far', '2999-01-31T12:00:00Z'), expiring('past', '2026-01-01T00:00:00Z')],
        },
      })
      await applied(written.json.operation_id as string)
      const found = async (filter: string) =>
        (await send({ vector: axisVector(5), filter_sql: filter })).json.results
      const far = expect.objectContaining({ id: 'far', expires_at: '2999-01-31T12:00:00.000Z' })
      expect(await found(`title = 'expiring'`)).toEqual([far])
      expect(await found(`title = 'expiring' AND expires_at < '2998-01-01'`)).toEqual([])
      await rebuild(gateway.platform)
      expect(await found(`title = 'expiring'`)).toEqual([far])
      const { rows } = await gateway.platform.engines.mirror.write.query(
        `select id, expires_at from vectors.metadata where title = 'expiring' and id = 'far'`,
      )
      expect(rows).toEqual([{ id: 'far', expires_at: new Date('2999-01-31T12:00:00Z') }])
    }, 240_000)

    test('an answer after a write has that write, also while a rebuild replaces the tables', async () => {
      const { mirror } = gateway.platform.engines
      let over = false
      const rebuilding = rebuild(gateway.platform).finally(() => {
        over = true
      })
      const turns = { before: 0, behind: 0 }
      // Some turns follow the flip.
      while (turns.behind < 3) {
        const n = turns.before + turns.behind
        const point = { id: 'turn', vector: axisVector(n), payload: { n } }
        const { operation_id: after } = await client.upsert('posts', [point])
        await applied(after)
        const answer = await send({ vector: axisVector(n), limit: 5, filter_sql: `id = 'turn'`, after })
        expect([answer.status, answer.json.results]).toEqual([
          200,
          [{ collection: 'posts', id: 'turn', score: expect.closeTo(1, 5), payload: { n } }],
        ])
        turns[over ? 'behind' : 'before'] += 1
      }
      expect(await rebuilding).toMatchObject({ index: 'relational', generation: 3 })
      expect(await mirror.liveGeneration()).toBe(3)
    }, 240_000)

    test.each([
      [{ filter_sql: "title = lower('X')" }, 400, 'invalid_filter'],
      [{ filter_sql: '' }, 400, 'invalid_filter'],
      [{ filter_sql: "updated_at > 'soon'" }, 400, 'invalid_filter'],
      [{ filter_sql: 'x'.repeat(100_000) }, 400, 'invalid_filter'],
      [{ filter_sql: 5 }, 422, 'validation_failed'],
      [{ table: 'metadata' }, 404, 'table_not_found'],
      [{ table: '' }, 422, 'validation_failed'],
      [{ metric: 'euclidean' }, 422, 'validation_failed'],
      [{ limit: 0 }, 422, 'validation_failed'],
      [{ limit: 1_001 }, 422, 'validation_failed'],
      [{ vector: [1, 2] }, 422, 'validation_failed'],
      [{ collection: 'posts' }, 422, 'validation_failed'],
      [{ after: 'x' }, 400, 'invalid_operation_id'],
    ])('%o is answered %i %s', async (given, status, code) => {
      const answer = await send({ vector: axisVector(1), ...given })
      expect([answer.status, answer.json.code]).toEqual([status, code])
    })

    test('a forbidden part of a filter is named, with its position', async () => {
      const answer = await send({
        vector: axisVector(1),
        filter_sql: 'EXISTS (SELECT 1 FROM platform.agents)',
      })
      expect(answer.status).toBe(400)
      expect(answer.json.detail).toMatch(/^filter_sql has a subquery, which is not allowed\. Allowed are /)
      expect(answer.json.errors).toEqual([{ path: '/filter_sql', message: answer.json.detail }])
    })

    test('without a key it is 401', async () => {
      const answer = await call(gateway.vectorUrl, '/v1/vectors/search-pg', { body: { table: 'embeddings' } })
      expect([answer.status, answer.json.code]).toEqual([401, 'unauthorized'])
    })
  })
}

function rebuild(platform: Platform) {
  return rebuildRelationalAction.run(operating(platform), {})
}
