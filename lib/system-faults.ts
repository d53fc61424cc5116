/**
 * What the codes of the operating system mean, in words for the people who can do something about it; and which faults say
 * "later": nothing is wrong with the request, and the same one succeeds once there is room or rest.
 */

import { AppError, type ErrorCode } from './errors.ts'

const meanings: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
  ENOENT: 'it is not there and cannot be made',
  ENOTDIR: 'a part of the path is a file, not a folder',
  EEXIST: 'it is a file, not a folder',
  EISDIR: 'it is a folder, not a file',
  ENAMETOOLONG: 'the path is too long',
  ELOOP: 'its links lead in a circle',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EFBIG: 'it would be larger than this process may write (ulimit -f)',
  EMFILE: 'too many files are open: raise the limit (ulimit -n)',
  ENFILE: 'the machine has too many files open',
  ENOMEM: 'the machine has no memory left',
  EIO: 'the disk fails (input/output error)',
}

/** Faults of the machine and not of a path: another path would meet them as well. */
const everywhere: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM'])

/** For example `the disk is full (ENOSPC)`; null for other errors. */
export function explainSystemFault(error: unknown): string | null {
  const code = codeOf(error)
  return code === null ? null : `${meanings[code]} (${code})`
}

/** The code of a file that could not be kept: `storage_unavailable` where room or rest mends it, else `invalid_configuration`. */
export function fileFaultCode(error: unknown): ErrorCode {
  return meansLater(error) === null ? 'invalid_configuration' : 'storage_unavailable'
}

/** The fault, wherever it is in the chain of causes, as AppError of `fileFaultCode`; null when there is none. */
export function systemFault(error: unknown): AppError | null {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    const code = codeOf(at)
    if (code === null) continue
    const { path } = at as NodeJS.ErrnoException
    const where = path === undefined || everywhere.has(code) ? '' : `${path}: `
    return new AppError(fileFaultCode(at), `${where}${meanings[code]} (${code}).`, { cause: error })
  }
  return null
}

/** A running platform has some 260 files open before the first request comes. */
const openFilesMin = 512

/** Its types leave the content open; Windows has no such limits. */
interface Report {
  userLimits?: { open_files?: { soft?: number | 'unlimited' } }
}

/** Why this process may open too few files for a platform, as AppError `invalid_configuration`, or null. */
export function openFilesFault(): AppError | null {
  const { userLimits } = process.report.getReport() as Report
  const limit = userLimits?.open_files?.soft
  if (typeof limit !== 'number' || limit >= openFilesMin) return null
  return new AppError(
    'invalid_configuration',
    `This process may open ${limit} files; it needs ${openFilesMin} at least: raise the limit (ulimit -n ${openFilesMin * 2}).`,
  )
}

function codeOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && Object.hasOwn(meanings, code) ? code : null
}

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
