/** A change of the embedder: the warnings about it, and vectors made again while writes go on, over kills and outages. */

import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createClient } from '#client/client.ts'
import { searchCollectionAction } from '#operations/collections-search.ts'
import { doctorOperation } from '#operations/doctor/doctor.ts'
import {
  rebuildEmbeddingsAction,
  rebuildRelationalAction,
  rebuildVectorsAction,
} from '#operations/rebuild.ts'
import { startPlatform } from '#runtime/start/start.ts'
import { provisionAgent } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { listGenerations, relationalIndex, vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { vectorsCommands } from '#topics/catalog.ts'
import { anyPorts } from '../support/any-ports.ts'
import { type EmbeddingsServer, openEmbeddingsServer } from '../support/embeddings-server.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'
import { temporaryFolder } from '../support/temporary.ts'

const patient = { timeout: 300_000 }
const textOf = (n: number) => `the text of number ${n}`

async function start(home: string, server: EmbeddingsServer, model: string, without = 'reference-nodes') {
  const running = await startPlatform({
    migrations: migrationFolders,
    services: services.filter(({ name }) => ![without, 'reference-nodes'].includes(name)),
    chosen: [],
    env: { ...anyPorts, FLOTILLA_HOME: home, EMBEDDINGS_URL: server.url, EMBEDDINGS_MODEL: model },
    log: pino({ level: 'silent' }),
    print() {},
    control: () => async () => null,
  })
  const { platform } = running
  const agentId = `agent-${platform.instanceId}`
  const agent = { agentId, tier: 'infra-architect' } as const
  const { privateKeyPem } = await provisionAgent(platform.engines.relational, agent)
  const vectorUrl = running.addresses.vector_url as string
  const client = createClient({ vectorUrl, agentId, privateKeyPem })
  const key = await client.apiKey()
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= client.close().then(() => running.close())
    return closing
  }
  onTestFinished(close)
  const send = (path: string, body: object) => call(vectorUrl, `/v1/vectors/${path}`, { key, body })
  /** As clients do: again where the embedder is away. */
  async function upsert(points: object[]): Promise<void> {
    for (;;) {
      const { status } = await send('upsert?wait=true', { collection: 'posts', points })
      if (status === 503) continue
      expect([200, 202]).toContain(status)
      return
    }
  }
  return {
    platform,
    client,
    close,
    upsert,
    async nearest(n: number) {
      const { json } = await send('search', { collection: 'posts', text: textOf(n), limit: 2 })
      const [hit] = json.results as { id: string; score: number }[]
      return {
        id: hit?.id,
        isExact: (hit?.score ?? 0) > 0.999,
        warnings: json.warnings as string[] | undefined,
      }
    },
    /** As a gateway publishes that still has the embedder of before. */
    async publishOld(n: number): Promise<void> {
      const [vector] = await oldVectors([textOf(n)])
      await platform.publisher.publish(vectorsCommands, [
        {
          key: { collection: 'posts', id: `p${n}` },
          value: {
            vector: Buffer.from(vector!.buffer),
            payload: JSON.stringify({ text: textOf(n) }),
            embedder: 'm1',
            making: null,
            expires_at: null,
          },
        },
      ])
    },
    rebuild: (signal?: AbortSignal) => rebuildEmbeddingsAction.run(operating(platform, signal), {}),
    doctor: async () => {
      const checks = await doctorOperation.run(operating(platform), {})
      return checks.filter(({ check }) => check.startsWith('vectors of'))
    },
    /** Distance of the mirrored row's vector to that of its text: search-pg reads the same table. */
    async mirrored(n: number): Promise<boolean> {
      const { data } = await client.embeddings(textOf(n))
      const vector = data[0]!.embedding as number[]
      const { json } = await send('search-pg', { table: 'embeddings', vector, limit: 1 })
      const [row] = json.results as { id: string; score: number }[]
      return row?.id === `p${n}` && row.score > 0.999
    },
  }

  async function oldVectors(texts: string[]): Promise<Float32Array[]> {
    const { openOpenAiEmbedder } = await import('#engines/embedder/openai.ts')
    return openOpenAiEmbedder({ url: server.url, model: 'm1' }).embed(texts)
  }
}

const openWorld = async () => {
  const server = await openEmbeddingsServer()
  onTestFinished(() => server.close())
  return { server, home: temporaryFolder() }
}

const points = (from: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({ id: `p${from + i}`, text: textOf(from + i) }))

test(
  'after a change of the embedder searches and doctor say so; rebuild embeddings mends it',
  patient,
  async () => {
    const { server, home } = await openWorld()
    const before = await start(home, server, 'm1')
    await before.upsert([
      ...points(0, 60),
      { id: 'own', vector: axisVector(7), payload: { text: textOf(3) } },
    ])
    expect(await before.nearest(3)).toEqual({ id: 'p3', isExact: true, warnings: undefined })
    expect(await before.doctor()).toEqual([])
    await eventually('the mirror has them', () => before.mirrored(3))
    await before.close()

    const after = await start(home, server, 'm2')
    expect(await after.nearest(3)).toMatchObject({
      isExact: false,
      warnings: [expect.stringMatching(/of the embedder m1, the question has one of m2.*rebuild embeddings/)],
    })
    const asked = await searchCollectionAction.run(operating(after.platform), {
      collection: 'posts',
      text: textOf(3),
    })
    expect(asked).toMatchObject({ warnings: [expect.stringContaining('rebuild embeddings')] })
    expect(await after.doctor()).toEqual([
      {
        check: 'vectors of posts',
        status: 'warn',
        found:
          '60 points of posts have vectors of the embedder m1, not of m2: searches by text find them less well',
        advice: '`flotilla rebuild embeddings` makes their vectors again.',
      },
    ])

    // Writes of gateways with either embedder go on meanwhile, and reads find everything.
    let over = false
    let written = 60
    const writing = (async () => {
      while (!over) {
        await after.upsert(points(written, 5))
        await after.publishOld(written % 60)
        expect((await after.client.getMany('posts', [`p${written}`])).points).toHaveLength(1)
        written += 5
      }
    })()
    server.faults = [{ status: 429, retryAfter: '60' }, { status: 401 }, { status: 503 }]
    const result = await after.rebuild().finally(() => {
      over = true
    })
    await writing
    expect(result).toMatchObject({ index: 'embeddings', embedder: 'm2' })
    for (const n of [0, 3, 59, 60, written - 1]) {
      expect(await after.nearest(n)).toEqual({ id: `p${n}`, isExact: true, warnings: undefined })
    }
    expect(await after.doctor()).toEqual([])
    expect((await after.client.get('posts', 'own')).vector[7]).toBeCloseTo(1)
    for (const n of [3, 60]) expect(await after.mirrored(n)).toBe(true)

    // What an old gateway writes later converges, too, and so do later rebuilds.
    await after.publishOld(3)
    await rebuildVectorsAction.run(operating(after.platform), {})
    await rebuildRelationalAction.run(operating(after.platform), {})
    await after.publishOld(4)
    await after.upsert(points(written, 1))
    for (const n of [3, 4]) {
      await eventually(
        'the record of the old gateway is applied',
        async () => (await after.nearest(n)).isExact,
      )
      await eventually('and mirrored', () => after.mirrored(n))
    }
    expect(await after.doctor()).toEqual([])
  },
)

test(
  'a rebuild of embeddings goes on after a stop in its midst, and shows itself when it is run again',
  patient,
  async () => {
    const { server, home } = await openWorld()
    const before = await start(home, server, 'm1')
    for (let from = 0; from < 2_000; from += 1_000) await before.upsert(points(from, 1_000))
    await before.close()
    const first = await start(home, server, 'm2')
    // The endpoint hangs: the new generations are begun, and nothing is in them.
    server.faults = Array.from({ length: 50 }, () => ({ status: 503 }))
    await expect(first.rebuild(AbortSignal.abort())).rejects.toMatchObject({ code: 'shutting_down' })
    const known = await listGenerations(first.platform.engines.relational, vectorsIndex)
    expect(known.map(({ state, embedder }) => [state, embedder])).toEqual([
      ['live', null],
      ['building', 'm2'],
    ])
    await expect(
      rebuildVectorsAction.run(operating(first.platform, AbortSignal.abort()), {}),
    ).rejects.toThrow()
    await first.close()

    server.faults = []
    const second = await start(home, server, 'm2')
    await second.rebuild()
    for (const index of [vectorsIndex, relationalIndex]) {
      const states = await listGenerations(second.platform.engines.relational, index)
      expect([index.name, states.at(-1)?.generation, states.at(-1)?.embedder]).toEqual([index.name, 2, 'm2'])
    }
    for (const n of [0, 1_100, 1_999]) expect((await second.nearest(n)).isExact).toBe(true)
    expect(await second.doctor()).toEqual([])
  },
)

test('while another rebuild runs that of embeddings is refused', patient, async () => {
  const { server, home } = await openWorld()
  const before = await start(home, server, 'm1')
  await before.upsert(points(0, 1))
  await before.close()
  // Nobody fills what is begun, so the other rebuild runs for as long as it is asked about.
  const { platform, rebuild } = await start(home, server, 'm1', 'vector-writer')
  await expect(rebuildVectorsAction.run(operating(platform, AbortSignal.abort()), {})).rejects.toMatchObject({
    code: 'shutting_down',
  })
  await expect(rebuild()).rejects.toMatchObject({ code: 'conflict' })
})
