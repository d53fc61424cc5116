/** Collections on Kafka, registry, Postgres and (where it is) Qdrant; and at two instances at once. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeCollections, requests } from '../flow/collections.promises.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { axisVector } from '../support/points.ts'
import { startedPlatform } from '../support/started-platform.ts'
import { temporaryFolder } from '../support/temporary.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

const home = mkdtempSync(join(tmpdir(), 'fl-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

describeCollections('distributed', async () => {
  await servers.clear()
  return { ...(await servers.newEnvironment()), FLOTILLA_HOME: home }
})

test('what one instance makes or deletes, another knows by the time it is answered, under load', async () => {
  await servers.clear()
  const agent = { access: 'admin' } as const
  const env = await servers.newEnvironment()
  const started = () =>
    startedPlatform({ ...env, FLOTILLA_HOME: temporaryFolder() }, { mirror: false, agent })
  const [first, second] = [await started(), await started()]
  try {
    const [one, other] = [await requests(first), await requests(second)]
    for (let round = 0; round < 4; round++) {
      expect((await one.create('shared')).status).toBe(201)
      const writing = Array.from({ length: 6 }, (_, n) =>
        (n % 2 === 0 ? one : other).upsert('shared', [{ id: `p${n}`, vector: axisVector(n) }]),
      )
      expect((await Promise.all(writing)).map(({ status }) => status)).toEqual(new Array(6).fill(200))
      expect([await one.count('shared'), await other.count('shared')]).toEqual([6, 6])
      // Some are still on their way when it is deleted.
      const late = Array.from({ length: 20 }, (_, n) =>
        other.upsert('shared', [{ id: `late${n}`, vector: axisVector(n) }]),
      )
      expect((await one.remove('shared')).status).toBe(200)
      expect([await one.count('shared'), await other.count('shared')]).toEqual([404, 404])
      expect((await other.create('shared')).status).toBe(201)
      const answered = (await Promise.all(late)).map(({ status }) => status)
      expect(answered.filter((status) => status !== 200 && status !== 404)).toEqual([])
      expect([await one.count('shared'), await other.count('shared')]).toEqual([0, 0])
      expect((await other.remove('shared')).status).toBe(200)
    }
  } finally {
    await first.close()
    await second.close()
  }
})
