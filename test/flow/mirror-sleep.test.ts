/** The relational mirror asleep, off, and off for too long, on embedded engines. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, it, vi } from 'vitest'
import { rebuildRelationalAction } from '#operations/rebuild.ts'
import { eventually } from '../support/eventually.ts'
import { layMirrorCluster } from '../support/mirror.ts'
import { openMirrorPlatform } from '../support/mirror-platform.ts'
import { operating } from '../support/operator.ts'
import { copyCluster } from '../support/relational.ts'
import { describeMirrorSleep } from './mirror-sleep.promises.ts'

const homes: string[] = []
afterAll(() => {
  for (const home of homes) rmSync(home, { recursive: true, force: true })
})
afterEach(() => void vi.useRealTimers())

async function environment(): Promise<{ FLOTILLA_HOME: string }> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  homes.push(home)
  await copyCluster(home)
  await layMirrorCluster(home)
  return { FLOTILLA_HOME: home }
}

describeMirrorSleep('embedded', environment)

it('a mirror that was off for so long that deletions may be gone stops, names the rebuild, and is right after it', async () => {
  const env = await environment()
  const on = await openMirrorPlatform(env)
  await on.publish([{ id: 'kept' }, { id: 'deleted' }])
  await on.drained()
  await on.close()
  const off = await openMirrorPlatform({ ...env, MIRROR: 'off' })
  await off.publish([{ id: 'missed' }, { id: 'deleted', payload: null }])
  await off.close()

  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 26 * 86_400_000 })
  const again = await openMirrorPlatform(env)
  await eventually('it says what to run', () =>
    again.lines.some(
      (text) => text.includes('consumer.partition-stopped') && text.includes('`flotilla rebuild relational`'),
    ),
  )
  await rebuildRelationalAction.run(operating(again.platform), {})
  await again.drained()
  expect(await again.rows()).toEqual({ 'posts/kept': {}, 'posts/missed': {} })
}, 240_000)
