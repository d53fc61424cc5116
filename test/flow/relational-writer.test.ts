/** The relational-writer on embedded engines, and what a machine that stopped costs it. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { groupOfGeneration, relationalIndex } from '#services/vectors/write/rebuild.ts'
import { layMirrorCluster } from '../support/mirror.ts'
import { openMirrorPlatform } from '../support/mirror-platform.ts'
import { copyCluster } from '../support/relational.ts'
import { temporaryFolder } from '../support/temporary.ts'
import { describeRelationalWriter, progressOf } from './relational-writer.promises.ts'

/** Clusters are copied: making two takes seconds. */
async function environment(home: string): Promise<{ FLOTILLA_HOME: string }> {
  await copyCluster(home)
  await layMirrorCluster(home)
  return { FLOTILLA_HOME: home }
}

const shared = mkdtempSync(join(tmpdir(), 'fl-'))
afterAll(() => rmSync(shared, { recursive: true, force: true }))

describeRelationalWriter('embedded', () => environment(shared))

it('is filled again from the log after a machine stopped, and no progress from before counts for it', async () => {
  const env = await environment(temporaryFolder())
  const first = await openMirrorPlatform(env)
  await first.publish(Array.from({ length: 40 }, (_, i) => ({ id: `p${i}`, payload: { i } })))
  await first.drained()
  const rows = await first.rows()
  await first.close()
  // As after a power cut: the mirror was open in another run of the machine.
  writeFileSync(join(env.FLOTILLA_HOME, 'mirror', 'OPEN'), 'another boot')
  const second = await openMirrorPlatform(env)
  await second.drained()
  expect(await second.rows()).toEqual(rows)
  expect(second.lines.join('')).toContain('mirror.discarded')
  expect(await second.mirror.liveGeneration()).toBe(2)
  expect((await progressOf(second, 2)).size).toBe(12)
  const { eventLog } = second.platform.engines
  const { members } = await eventLog.groupState(groupOfGeneration(relationalIndex, 2), 'vectors.commands')
  expect(members).toBe(1)
}, 120_000)
