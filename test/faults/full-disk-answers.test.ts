/** The data directory's volume is full: every interface answers 503 with a time to wait, and goes on when there is room. */

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { mountVolume } from '../support/fault-fleet/volume.ts'
import { type InterfaceWrites, prepareWrites } from '../support/interface-writes.ts'
import { openRunsPlatform, type RunsPlatform } from '../support/runs-platform.ts'

vi.setConfig({ testTimeout: 300_000 })

const volume = mountVolume(600)
const keys = mountVolume(4)
const volumes = join(keys?.path ?? '', 'volumes')
let platform: RunsPlatform
let writes: InterfaceWrites
beforeAll(async () => {
  if (volume === null) return
  // Where the platform makes its data directory.
  vi.stubEnv('TMPDIR', volume.path)
  platform = await openRunsPlatform({ AGENT_VOLUMES_DIR: volumes })
  vi.unstubAllEnvs()
  writes = await prepareWrites(platform)
})
afterAll(async () => {
  volume?.free()
  await platform?.close()
  volume?.unmount()
  keys?.unmount()
})

const isDone = (status: number) => status >= 200 && status < 300

test.skipIf(volume === null)('a full disk of the database and of the log', async () => {
  volume!.fill()
  const answers = new Map<string, number>()
  // A write that fits into present pages is done; a larger note needs a new page.
  const body = 'x'.repeat(50_000)
  const ofHub = () =>
    platform.call('POST', new URL('/fleet_notes', platform.hubUrl).href, { body: { subject: 'a', body } })
  for (let round = 0; round < 5; round++) {
    for (const [what, write] of [...writes.all, ['a large note', ofHub] as const]) {
      const { status, json } = await write()
      if (isDone(status)) continue
      expect([what, status, json.retryAfter]).toEqual([what, 503, expect.any(Number)])
      answers.set(`${what}: ${json.code}`, round)
    }
  }
  expect([...answers.keys()]).toContain('a large note: relational_engine_unavailable')
  volume!.free()
  for (const [what, write] of writes.all) {
    await eventually(`${what} is accepted`, async () => isDone((await write()).status), 60_000)
  }
})

test.skipIf(volume === null)('a full volume of a key: the old key stays, and nothing is left', async () => {
  expect((await writes.main('/agents', { agent_id: 'owner', volume: 'owner' })).status).toBe(201)
  keys!.fill()
  const refused = [
    await writes.main('/agents', { agent_id: 'late', volume: 'late' }),
    await writes.main('/agents/owner/rotate', { volume: 'owner', force: true }),
  ]
  for (const { status, json, headers } of refused) {
    expect([status, json.code, json.retryAfter]).toEqual([503, 'storage_unavailable', expect.any(Number)])
    expect(headers.get('retry-after')).toMatch(/^\d+$/)
    expect(JSON.stringify(json)).not.toContain(volumes)
  }
  expect(readdirSync(join(volumes, 'owner'))).toEqual(['ed25519.pem'])
  if (existsSync(join(volumes, 'late'))) expect(readdirSync(join(volumes, 'late'))).toEqual([])
  keys!.free()
  const late = () => writes.main('/agents', { agent_id: 'late', volume: 'late' })
  await eventually('there is room', async () => isDone((await late()).status))
})
