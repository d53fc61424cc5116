/**
 * The folder of the embedded mirror, which holds a cluster that can be trusted or none. The embedded Postgres never
 * syncs to disk. A process that is killed loses nothing by that, because the system still writes what it was given;
 * a machine that stops before it did may leave pages from different times. So the folder records which boot of the
 * machine uses it, and a cluster that another boot left open, or that was never finished, is thrown away: it is
 * built again from the log.
 */

import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { syncPath, syncTree, writeSynced } from '#lib/files.ts'

export interface MirrorFolder {
  /** Where the cluster is, or will be. */
  cluster: string
  /** Why the cluster that was here has been thrown away, if one was. */
  discarded: 'the machine stopped while it was open' | 'it was never finished' | undefined
  /** The cluster is complete from now on. */
  made(): void
  /** The cluster is closed: everything goes to the disk, then the folder counts as closed. */
  closed(): void
}

/** Whether a cluster that can be trusted is there; changes nothing. */
export function holdsCluster(directory: string, boot = bootId()): boolean {
  const paths = pathsOf(directory)
  return existsSync(paths.cluster) && reasonToDiscard({ ...paths, boot }) === undefined
}

const bootFile = '/proc/sys/kernel/random/boot_id'

/** `boot` names this run of the machine; null where the system does not say; then no unclean stop is trusted. */
export function openMirrorFolder(directory: string, boot = bootId()): MirrorFolder {
  const { cluster, openMark, madeMark } = pathsOf(directory)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const discarded = reasonToDiscard({ cluster, openMark, madeMark, boot })
  if (discarded) {
    // The mark goes first: a cluster that is half removed is not a finished one.
    rmSync(madeMark, { force: true })
    syncPath(directory)
    rmSync(cluster, { recursive: true, force: true })
  }
  writeSynced(openMark, boot ?? '')
  syncPath(directory)
  return {
    cluster,
    discarded,
    made() {
      if (existsSync(madeMark)) return
      writeSynced(madeMark, '')
      syncPath(directory)
    },
    closed() {
      syncTree(cluster)
      rmSync(openMark, { force: true })
      syncPath(directory)
    },
  }
}

function pathsOf(directory: string) {
  return {
    cluster: join(directory, 'cluster'),
    openMark: join(directory, 'OPEN'),
    madeMark: join(directory, 'MADE'),
  }
}

function reasonToDiscard(folder: {
  cluster: string
  openMark: string
  madeMark: string
  boot: string | null
}): MirrorFolder['discarded'] {
  if (!existsSync(folder.cluster)) return undefined
  if (!existsSync(folder.madeMark)) return 'it was never finished'
  if (!existsSync(folder.openMark)) return undefined
  const usedBy = readFileSync(folder.openMark, 'utf8')
  if (folder.boot !== null && usedBy === folder.boot) return undefined
  return 'the machine stopped while it was open'
}

function bootId(): string | null {
  try {
    return readFileSync(bootFile, 'utf8').trim() || null
  } catch {
    return null
  }
}
