/**
 * The embedded mirror. It has a cluster and a thread of its own, so that a scan never delays a handshake, and no
 * vector index.
 */

import type { Logger } from 'pino'
import { openPglite, type Pglite } from '../pglite.ts'
import { createEmbeddedReads } from './embedded-reads.ts'
import { holdsCluster, type MirrorFolder, openMirrorFolder } from './folder.ts'
import { createMirror } from './mirror.ts'
import type { Mirror } from './port.ts'

/** Nothing is opened before the first use: a platform whose services do not touch it pays for no second engine. */
export function openPgliteMirror(options: { directory: string; log: Logger }): Mirror {
  const { directory, log } = options
  let folder: MirrorFolder | undefined
  let opened: Promise<Pglite> | undefined
  return createMirror({
    driver: 'embedded',
    log,
    async open() {
      folder ??= openMirrorFolder(directory)
      if (folder.discarded) log.warn({ reason: folder.discarded }, 'mirror.discarded')
      // Writes and searches of vectors go first: rows may come late.
      opened = openPglite({ directory: folder.cluster, log, stepsBack: true })
      const engine = await opened
      return {
        write: engine,
        read: createEmbeddedReads(engine),
        async finishGeneration() {},
      }
    },
    resting: () => (holdsCluster(directory) ? 'closed' : 'absent'),
    prepared: () => folder?.made(),
    async close() {
      const engine = await opened?.catch(() => undefined)
      if (!engine) return
      await engine.close()
      folder?.closed()
    },
  })
}
