/** Changed payloads and expiry on embedded engines. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { layMirrorCluster } from '../support/mirror.ts'
import { copyCluster } from '../support/relational.ts'
import { describePayloadsAndExpiry } from './payload-expiry.promises.ts'

const home = mkdtempSync(join(tmpdir(), 'fl-'))
afterAll(() => rmSync(home, { recursive: true, force: true }))

describePayloadsAndExpiry('embedded', async () => {
  await copyCluster(home)
  await layMirrorCluster(home)
  return { FLOTILLA_HOME: home }
})
