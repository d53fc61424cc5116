/** Recognises the faults that say "later": nothing is wrong with the request, and the same one succeeds once there is room or rest. */

/**
 * What has to recover: the `engine` of a statement, other `statement`s that held this one up, or the `machine`, which has no
 * room, memory or files left for us.
 */
export type Later = 'engine' | 'statement' | 'machine'

/**
 * SQLSTATEs that concern the connection or the server: connection exceptions, authentication, a missing database, no disk,
 * memory or connections left, shutting down or starting up, an idle session that was ended, errors of its system. 58P01 is a
 * missing file: what an extension that is not installed meets.
 */
const engineStates = /^(08|28|3D000|53|57P|25P03|58(?!P01))/

/** Conflicts with other statements, locks, time-outs, a server that only reads because another has taken over. */
const statementStates = /^(40|55006|55P03|57|25006|25P04|58P01)/

/** Postgres has no SQLSTATE of its own for these faults of its files. */
const fileFault =
  /^could not (extend|write|open|create|fsync|read)\b.*(quota|read-only|no space|input\/output|too large)/is
const concurrentChange = /\bconcurrently (updated|deleted)\b/

const machineCodes: ReadonlySet<string> = new Set([
  'ENOSPC',
  'EDQUOT',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'ENOBUFS',
  'EIO',
  'EAGAIN',
  'EBUSY',
])

/** SQLite's primary result codes: busy, locked, no memory, I/O error, full, cannot open. */
const sqliteCodes: ReadonlySet<number> = new Set([5, 6, 7, 10, 13, 14])

const causesMax = 5

/**
 * What has to recover before the same work can succeed, where a fault of SQL, SQLite or the operating system says so; causes
 * count. Null: the same work would fail again.
 */
export function meansLater(error: unknown): Later | null {
  for (let at = error, depth = 0; at instanceof Error && depth < causesMax; at = at.cause, depth++) {
    const later = ownMeaning(at)
    if (later !== null) return later
  }
  return null
}

function ownMeaning(error: Error): Later | null {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (typeof errcode === 'number') return sqliteCodes.has(errcode % 256) ? 'machine' : null
  if (typeof code !== 'string') return null
  if (machineCodes.has(code)) return 'machine'
  if (!/^[0-9A-Z]{5}$/.test(code)) return null
  const isFileFault = (code === 'XX000' || code === '42501') && fileFault.test(error.message)
  if (engineStates.test(code) || isFileFault) return 'engine'
  if (statementStates.test(code)) return 'statement'
  return code === 'XX000' && concurrentChange.test(error.message) ? 'statement' : null
}
