/** The relational mirror that nobody asks: it sleeps, a question wakes it, and no answer is silently old; and one that is off. */

import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { doctorOperation } from '#operations/doctor/doctor.ts'
import { type GroupLag, readLag } from '#operations/lag.ts'
import { rebuildRelationalAction } from '#operations/rebuild.ts'
import { knownCommitEveryMs } from '#runtime/consume/limits.ts'
import { eventually } from '../support/eventually.ts'
import { call } from '../support/gateway-call.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'
import { operating } from '../support/operator.ts'
import { axisVector } from '../support/points.ts'
import { shortSleep, withSleep } from '../support/sleeping-mirror.ts'

const longMs = 240_000
const collection = 'posts'

/** `environment` names empty engines; one platform after the other runs on them. */
export function describeMirrorSleep(
  driver: string,
  environment: () => Promise<Record<string, string>>,
): void {
  describe(`a mirror that nobody asks (${driver})`, () => {
    const limits = shortSleep()
    let platform: GatewayPlatform
    let client: Client
    let key: string
    beforeAll(async () => {
      platform = await openGatewayPlatform(await environment(), { mirror: true, as: withSleep(limits) })
      client = await platform.clientOf('whale', { timeoutMs: 60_000 })
      key = await client.apiKey()
    }, longMs)
    afterAll(() => platform?.close(), longMs)

    const upsert = async (prefix: string, count: number) => {
      const points = pointsOf(prefix, count)
      return (await client.upsert(collection, points, { wait: true })).operation_id
    }
    const fellAsleep = () =>
      eventually('it sleeps', () =>
        platform.lines.findLast((text) => /"mirror\.(asleep|awake)"/.test(text))?.includes('mirror.asleep'),
      )
    /** Also when a busy machine needs longer than a request may wait. */
    const search = (body: object = {}) => searchUntilApplied(platform, key, body)

    it(
      'writes nothing while it sleeps, keeps its partitions, and says so',
      async () => {
        await upsert('first', 3)
        expect(await search()).toHaveLength(3)
        await fellAsleep()
        const before = await commitsEnded(platform)
        await upsert('second', 5)
        await eventually('the lag grows', async () => (await mirrorGroup(platform)).lag >= before.lag + 5)
        const after = await mirrorGroup(platform)
        const { members, partitions } = after
        expect(members).toBeGreaterThan(0)
        expect(committedOf(after)).toEqual(committedOf(before))
        expect(partitions.every(({ owner }) => owner !== null)).toBe(true)
        expect(await mirroredIds(platform, 'second')).toEqual([])
        const checks = await doctorOperation.run(operating(platform.platform), {})
        expect(checks.find(({ check }) => check === 'group relational-writer')).toMatchObject({
          status: 'ok',
          found: expect.stringContaining('asleep until a search-pg asks'),
        })
      },
      longMs,
    )

    it(
      'is woken by a question, which sees everything that was written before it',
      async () => {
        expect(await search()).toHaveLength(8)
        // Asked again: a busy machine may need longer for the lag than the mirror stays awake.
        await eventually('the lag shows it awake', async () => {
          const [{ rests }] = await Promise.all([mirrorGroup(platform), search()])
          return rests === null
        })
        await fellAsleep()
        await upsert('third', 4)
        expect(await search()).toHaveLength(12)
      },
      longMs,
    )

    it(
      'is woken by a question with after as well, and then has the other writes, too',
      async () => {
        await fellAsleep()
        await upsert('other', 2)
        const after = await upsert('named', 1)
        expect(await search({ after })).toHaveLength(15)
      },
      longMs,
    )

    it(
      'takes pending records now and then, or when there are many, and sleeps on',
      async () => {
        await fellAsleep()
        await upsert('seldom', 3)
        expect(await mirroredIds(platform, 'seldom')).toEqual([])
        limits.takeEveryMs = 100
        await eventually('they are written', async () => (await mirroredIds(platform, 'seldom')).length === 3)
        limits.takeEveryMs = 3_600_000
        // A take that is under way ends first.
        await commitsEnded(platform)
        limits.pendingMax = 40
        // Fewer than forty remain, wherever the last take ended.
        for (let n = 0; n < 8; n++) await upsert(`many-${n}`, 10)
        await eventually('they are written', async () => (await mirroredIds(platform, 'many')).length > 30)
        Object.assign(limits, shortSleep())
        expect((await mirrorGroup(platform)).rests).toBe('asleep')
      },
      longMs,
    )

    it(
      'does not sleep while it is rebuilt',
      async () => {
        await fellAsleep()
        await upsert('rebuilt', 2)
        await rebuildRelationalAction.run(operating(platform.platform), {})
        await eventually(
          'all is in the new tables',
          async () => (await mirroredIds(platform, 'rebuilt')).length === 2,
        )
        expect(await search({ limit: 200 })).toHaveLength(100)
      },
      longMs,
    )
  })

  it(
    `a mirror that is off is not written, and goes on when it is on again (${driver})`,
    async () => {
      const env = await environment()
      const on = await openGatewayPlatform(env, { mirror: true })
      const client = await on.clientOf('whale', { timeoutMs: 60_000 })
      await client.upsert(collection, pointsOf('kept', 2), { wait: true })
      const { privateKeyPem } = await on.provision({ agentId: 'orca' })
      const clientAt = ({ vectorUrl }: GatewayPlatform) =>
        createClient({ vectorUrl, agentId: 'orca', privateKeyPem })
      expect(await searchUntilApplied(on, await client.apiKey(), {})).toHaveLength(2)
      await on.close()

      const off = await openGatewayPlatform({ ...env, MIRROR: 'off' }, { mirror: true })
      const orca = clientAt(off)
      const { operation_id: after } = await orca.upsert(collection, pointsOf('missed', 3), { wait: true })
      await orca.delete(collection, ['kept-0'])
      const key = await orca.apiKey()
      for (const body of [{}, { after }, { table: 'nothing' }]) {
        const { status, json } = await searchPg(off, key, body)
        expect({ status, code: json.code }).toEqual({ status: 503, code: 'mirror_off' })
        expect(json).not.toHaveProperty('retryAfter')
        expect(json.detail).toContain('MIRROR=on')
      }
      const { rests, members } = await mirrorGroup(off)
      expect({ rests, members }).toEqual({ rests: 'off', members: 0 })
      expect(off.lines.filter((text) => text.includes('"mirror.off"'))).toHaveLength(1)
      const checks = await doctorOperation.run(operating(off.platform), {})
      expect(
        checks.filter(({ check, status }) => /relational-writer|mirror/.test(check) && status !== 'ok'),
      ).toEqual([])
      await expect(rebuildRelationalAction.run(operating(off.platform), {})).rejects.toMatchObject({
        code: 'mirror_off',
      })
      await off.close()

      const again = await openGatewayPlatform(env, { mirror: true })
      const found = await searchUntilApplied(again, await clientAt(again).apiKey(), {})
      expect(found).toEqual(['kept-1', 'missed-0', 'missed-1', 'missed-2'])
      await again.close()
    },
    longMs,
  )
}

export function pointsOf(prefix: string, count: number) {
  return Array.from({ length: count }, (_, n) => ({
    id: `${prefix}-${n}`,
    vector: axisVector(n),
    payload: {},
  }))
}

export function searchPg({ vectorUrl }: Pick<GatewayPlatform, 'vectorUrl'>, key: string, body: object) {
  const whole = { table: 'embeddings', vector: axisVector(0), limit: 100, ...body }
  return call(vectorUrl, '/v1/vectors/search-pg', { key, body: whole })
}

/** The ids of the points that are found, in order; as long as the answer is that it is not yet applied, it is asked again. */
export async function searchUntilApplied(
  at: Pick<GatewayPlatform, 'vectorUrl'>,
  key: string,
  body: object,
): Promise<string[]> {
  for (;;) {
    const { status, json, text } = await searchPg(at, key, { filter_sql: `collection = 'posts'`, ...body })
    if (status === 200) return (json.results as { id: string }[]).map(({ id }) => id).sort()
    if (json.code !== 'not_yet_applied') throw new Error(text)
    expect(json.retryAfter).toBeGreaterThan(0)
  }
}

/** What the mirror took is committed. More records may be pending: audit notes of the requests before. */
function commitsEnded(platform: GatewayPlatform): Promise<GroupLag> {
  return eventually('commits end', async () => {
    const earlier = await mirrorGroup(platform)
    await sleep(2 * knownCommitEveryMs)
    const now = await mirrorGroup(platform)
    return isDeepStrictEqual(committedOf(now), committedOf(earlier)) ? now : null
  })
}

const committedOf = ({ partitions }: GroupLag) => partitions.map(({ committed }) => committed)

async function mirrorGroup({ platform }: GatewayPlatform): Promise<GroupLag> {
  return (await readLag(platform)).find(({ group }) => group === 'relational-writer') as GroupLag
}

async function mirroredIds({ platform }: GatewayPlatform, prefix: string): Promise<string[]> {
  const { rows } = await platform.engines.mirror.write.query<{ id: string }>(
    'select id from vectors.embeddings where starts_with(id, $1) order by id',
    [prefix],
  )
  return rows.map(({ id }) => id)
}
