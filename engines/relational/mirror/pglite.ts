/**
 * The embedded mirror. It has a cluster and a thread of its own, so that a scan never delays a handshake, and no vector index.
 * That engine runs one statement at a time and cannot be interrupted, so callers take turns at it, and those whose statements
 * are slow rest between their turns.
 */

import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { syncPath, syncTree, writeSynced } from '#lib/files.ts'
import { createTurns } from '#lib/turns.ts'
import { openPglite, type Pglite } from '../pglite.ts'
import type { SqlValue } from '../port.ts'
import { waitedTooLong } from '../sql-faults.ts'
import { createMirror } from './mirror.ts'
import type { Mirror, ReadOptions } from './port.ts'
import { readerRole } from './tables.ts'

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

const waitingMax = 1_000
/** All slow statements take turns as one caller among the others. */
const slowOnes = 'slow statements'
/** A slow statement that takes no longer rests no longer than it took. */
const lightMs = 5

function createEmbeddedReads(engine: Pick<Pglite, 'read'>): Mirror['read'] {
  const turns = createTurns({ atOnce: 1, perCaller: 1, waitingMax })
  const slowTurns = createTurns({ atOnce: 1, perCaller: 1, waitingMax })

  return async function read<Row>(text: string, params: SqlValue[], options: ReadOptions) {
    const { caller = '', slow = false } = options
    const begin = beginRead(options)
    const endAt = performance.now() + options.timeoutMs
    const leftMs = () => Math.max(1, endAt - performance.now())
    const run = () => engine.read<Row>(begin, text, params, leftMs())
    if (!slow) return turns.take(`agent ${caller}`, leftMs(), waitedTooLong, run)
    return slowTurns.take(caller, leftMs(), waitedTooLong, async () => {
      let begunAt = performance.now()
      let busyMs: number | undefined
      try {
        const result = await turns.take(slowOnes, leftMs(), waitedTooLong, () => {
          begunAt = performance.now()
          return run()
        })
        busyMs = result.busyMs
        return result
      } finally {
        slowTurns.rest(caller, restMs(busyMs ?? performance.now() - begunAt))
      }
    })
  }
}

/** Twice as long costs eight times the rest: the longer a turn, the more seldom others wait behind one. */
function restMs(busyMs: number): number {
  return busyMs * Math.max(1, (busyMs / lightMs) ** 2)
}

function beginRead({ settings = {} }: ReadOptions): string {
  const set = Object.entries(settings).map(
    ([name, value]) => `set_config(${quote(name)}, ${quote(value)}, true)`,
  )
  return `begin read only; ${set.length > 0 ? `select ${set.join(', ')}; ` : ''}set local role ${readerRole}`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/**
 * The embedded Postgres never syncs to disk. A process that is killed loses nothing by that, because the system still writes
 * what it was given; a machine that stops before it did may leave pages from different times. So the folder records which boot
 * of the machine uses it, and a cluster that another boot left open, or that was never finished, is thrown away: it is built
 * again from the log.
 */
export type MirrorFolder = ReturnType<typeof openMirrorFolder>

/** Whether a cluster that can be trusted is there; changes nothing. */
export function holdsCluster(directory: string, boot = bootId()): boolean {
  const paths = pathsOf(directory)
  return existsSync(paths.cluster) && reasonToDiscard({ ...paths, boot }) === undefined
}

const bootFile = '/proc/sys/kernel/random/boot_id'

/** `boot` names this run of the machine; null where the system does not say; then no unclean stop is trusted. */
export function openMirrorFolder(directory: string, boot = bootId()) {
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
    /** The cluster is complete from now on. */
    made() {
      if (existsSync(madeMark)) return
      writeSynced(madeMark, '')
      syncPath(directory)
    },
    /** The cluster is closed: everything goes to the disk, then the folder counts as closed. */
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
}): 'the machine stopped while it was open' | 'it was never finished' | undefined {
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
