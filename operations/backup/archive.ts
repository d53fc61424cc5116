/**
 * The file of a backup: a tar of the data directory, compressed by zstd. Its last entry, manifest.json, has the SHA-256 of
 * every file, so that a damaged or cut file is found.
 */

import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream, readdirSync, statSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { join, posix, sep } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { extract, type Pack, pack } from 'tar-stream'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { AppError, describeError } from '#lib/errors.ts'
import { systemFault } from '#lib/system-faults.ts'
import type { Progress } from '#runtime/control.ts'

const manifestName = 'manifest.json'
const manifestBytesMax = 256 * 2 ** 20
/** Raise it when older versions could not restore what is written. */
const formatVersion = 1
/** Below the folder of the archive, so that nothing of it can have the manifest's name. */
const root = 'data/'
const compression = {
  [constants.ZSTD_c_compressionLevel]: 3,
  [constants.ZSTD_c_checksumFlag]: 1,
}

const manifestSchema = Type.Object({
  format: Type.Integer(),
  /** The version that wrote it. */
  version: Type.String(),
  /** When the copy began: all that was acknowledged before is in it. */
  begun_at: Type.String(),
  folders: Type.Array(Type.String()),
  files: Type.Array(Type.Object({ path: Type.String(), bytes: Type.Integer(), sha256: Type.String() })),
})

export type Manifest = Static<typeof manifestSchema>

export interface ArchiveRun {
  progress(state: Progress): void
  signal: AbortSignal
}

/** Writes what is in `folder` to `file` (mode 0600, which must not exist) and syncs it. */
export async function writeArchive(
  { folder, file, ...about }: { folder: string; file: string; version: string; begun_at: string },
  { progress, signal }: ArchiveRun,
): Promise<Manifest> {
  const tar = pack()
  const { names, bytes: total } = contentOf(folder)
  const manifest: Manifest = { format: formatVersion, ...about, folders: [], files: [] }
  let done = 0
  const fill = async () => {
    for (const name of names) {
      const path = join(folder, name)
      const entry = { name: root + name, mtime: new Date(manifest.begun_at) }
      const { size, mode } = statSync(path)
      if (name.endsWith('/')) {
        tar.entry({ ...entry, type: 'directory', mode: 0o700 })
        manifest.folders.push(name)
        continue
      }
      const hash = createHash('sha256')
      const meter = meteredBy(hash, (bytes) => {
        done += bytes
        progress({ label: 'packing', done, total })
      })
      const target = tar.entry({ ...entry, size, mode: mode & 0o700 })
      await pipeline(createReadStream(path), meter, target)
      manifest.files.push({ path: name, bytes: size, sha256: hash.digest('hex') })
    }
    await addText(tar, manifestName, JSON.stringify(manifest))
    tar.finalize()
  }
  const output = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true })
  const written = pipeline(tar, createZstdCompress({ params: compression }), output, { signal })
  // A full disk shows at the output; the entry that is being filled then only knows that it was cut off.
  const [sent, filled] = await Promise.allSettled([written, fill()])
  for (const result of [sent, filled]) {
    if (result.status === 'rejected') throw writeFault(result.reason, signal)
  }
  return manifest
}

export interface ArchiveSink {
  folder(name: string): void
  /** Opens a file that is to be filled and closed. */
  file(name: string, mode: number): Promise<FileHandle>
}

/**
 * Reads all of an archive, gives it to `sink` and compares what was read with the manifest. Throws AppError `not_found`,
 * or `invalid_configuration` for a file that is damaged, is no backup or was written by a newer version.
 */
export async function readArchive(
  file: string,
  sink: ArchiveSink | undefined,
  { progress, signal }: ArchiveRun,
): Promise<Manifest> {
  const total = sizeOf(file)
  let done = 0
  const meter = meteredBy(undefined, (bytes) => {
    done += bytes
    progress({ label: sink ? 'restoring' : 'checking', done, total })
  })
  const tar = extract()
  const read = pipeline(createReadStream(file), meter, createZstdDecompress(), tar, { signal })
  const found = collect(tar, sink)
  const [entries, source] = await Promise.allSettled([found, read])
  if (signal.aborted) throw new AppError('shutting_down', 'The restore was cancelled.')
  // What could not be written is no fault of the archive.
  if (entries.status === 'rejected') throw sinkFault(entries.reason) ?? damaged(file, source, entries.reason)
  if (source.status === 'rejected') throw damaged(file, source, source.reason)
  return checked(file, entries.value)
}

interface Found {
  manifest: string | undefined
  folders: string[]
  files: Manifest['files']
}

async function collect(tar: ReturnType<typeof extract>, sink: ArchiveSink | undefined): Promise<Found> {
  const found: Found = { manifest: undefined, folders: [], files: [] }
  for await (const entry of tar) {
    const { name: full, type, mode = 0o600, size = 0 } = entry.header
    if (full === manifestName && size <= manifestBytesMax) {
      found.manifest = await textOf(chunksOf(entry))
      continue
    }
    const name = insideName(full)
    if (type === 'directory') {
      found.folders.push(`${name}/`)
      sink?.folder(name)
      entry.resume()
      continue
    }
    if (type !== 'file') throw new Error(`${full} is no file`)
    const target = await sink?.file(name, mode & 0o700)
    try {
      found.files.push({ path: name, ...(await passOn(chunksOf(entry), target)) })
    } finally {
      await target?.close()
    }
  }
  return found
}

/** The library's types leave open what its streams give; without a text encoding that is bytes. */
function chunksOf(entry: AsyncIterable<unknown>): AsyncIterable<Buffer> {
  return entry as AsyncIterable<Buffer>
}

async function passOn(
  chunks: AsyncIterable<Buffer>,
  target: FileHandle | undefined,
): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of chunks) {
    hash.update(chunk)
    bytes += chunk.length
    await target?.writeFile(chunk)
  }
  return { bytes, sha256: hash.digest('hex') }
}

/** A name that leads out of the folder would be written elsewhere. */
function insideName(full: string): string {
  const name = posix.normalize(full).replace(/\/$/, '')
  const inside = name.startsWith(root) && name.length > root.length && !name.split('/').includes('..')
  if (!inside) throw new Error(`${full} is not below ${root}`)
  return name.slice(root.length)
}

function checked(file: string, found: Found): Manifest {
  const manifest = parsed(found.manifest)
  if (manifest === undefined) throw damaged(file, undefined, new Error('its end is missing'))
  if (manifest.format > formatVersion) {
    throw new AppError(
      'invalid_configuration',
      `${file} was written by version ${manifest.version}, which this one cannot read: restore it with that version.`,
    )
  }
  const given = new Map(found.files.map((one) => [one.path, one]))
  for (const { path, bytes, sha256 } of manifest.files) {
    const one = given.get(path)
    if (one?.bytes !== bytes || one.sha256 !== sha256) throw damaged(file, undefined, new Error(path))
  }
  const folders = new Set(found.folders)
  const complete =
    given.size === manifest.files.length && manifest.folders.every((folder) => folders.has(folder))
  if (!complete) throw damaged(file, undefined, new Error('it holds other files than its manifest says'))
  return manifest
}

function parsed(text: string | undefined): Manifest | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return Value.Check(manifestSchema, value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The stream's own fault says more than that of whoever waited for it. */
function damaged(file: string, source: PromiseSettledResult<unknown> | undefined, reason: unknown): AppError {
  const cause = source?.status === 'rejected' ? source.reason : reason
  return (
    systemFault(cause) ??
    new AppError(
      'invalid_configuration',
      `${file} is damaged, or is no backup: its checksum is wrong (${describeError(cause, 120)}). Nothing was restored; take another copy of it.`,
      { cause },
    )
  )
}

/** Of a file or folder that cannot be written; null for everything else. */
function sinkFault(error: unknown): AppError | null {
  return error instanceof AppError ? error : systemFault(error)
}

function writeFault(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return new AppError('shutting_down', 'The backup was cancelled.')
  return systemFault(error) ?? error
}

function sizeOf(file: string): number {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found?.isFile()) return found.size
  throw new AppError('not_found', `There is no file ${file}.`)
}

function contentOf(folder: string): { names: string[]; bytes: number } {
  const names: string[] = []
  let bytes = 0
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = path.slice(folder.length + 1).replaceAll(sep, '/')
    names.push(entry.isDirectory() ? `${name}/` : name)
    if (entry.isFile()) bytes += statSync(path).size
  }
  return { names: names.sort(), bytes }
}

function meteredBy(hash: Hash | undefined, passed: (bytes: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _, next) {
      hash?.update(chunk)
      passed(chunk.length)
      next(null, chunk)
    },
  })
}

function addText(tar: Pack, name: string, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    tar.entry({ name, mode: 0o600 }, text, (error) => (error ? reject(error) : resolve()))
  })
}

async function textOf(chunks: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  for await (const chunk of chunks) parts.push(chunk)
  return Buffer.concat(parts).toString('utf8')
}
