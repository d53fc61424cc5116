/** An embedded mirror for tests, on a copy of the cluster that was made once for this checkout. */

import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPgliteMirror } from '#engines/relational/mirror/pglite.ts'
import type { Mirror } from '#engines/relational/mirror/port.ts'
import { copyCluster, silentLog } from './relational.ts'

/** Its folder goes when it is closed. */
export async function openTestMirror(): Promise<Mirror> {
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  const mirror = openPgliteMirror({ directory: await layMirrorCluster(home), log: silentLog })
  return {
    ...mirror,
    async close() {
      await mirror.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** An empty, finished cluster below `home`, where a platform's mirror looks for its own. */
export async function layMirrorCluster(home: string): Promise<string> {
  const directory = join(home, 'mirror')
  mkdirSync(directory, { recursive: true })
  renameSync(await copyCluster(directory), join(directory, 'cluster'))
  writeFileSync(join(directory, 'MADE'), '')
  return directory
}
