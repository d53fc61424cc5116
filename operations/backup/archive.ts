/**
 * The file of a backup: a tar of the data directory, compressed by zstd. Behind it is the SHA-256 of every byte before, in a
 * frame that zstd skips, so that a damaged or cut file is found, and any tar still opens a sound one.
 */

import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, readdirSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join, posix, sep } from 'node:path'
import { Transform } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { type Extract, extract, type Pack, pack } from 'tar-stream'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { AppError, describeError } from '#lib/errors.ts'
import { systemFault } from '#lib/system-faults.ts'
import type { Progress } from '#runtime/start/control.ts'

/** The first entry. */
const manifestName = 'manifest.json'
const manifestBytesMax = 64 * 1024
/** Raise it when older versions could not restore what is written. */
const formatVersion = 1
/** Everything else is below this folder. */
const root = 'data/'
const compression = { [constants.ZSTD_c_compressionLevel]: 3 }
/** A skippable frame of zstd (RFC 8878, 3.1.2): magic number and length, then the digest. */
const digestBytes = 32
const frameHead = Buffer.from([0x50, 0x2a, 0x4d, 0x18, digestBytes, 0, 0, 0])
const trailerBytes = frameHead.length + digestBytes

const manifestSchema = Type.Object({
  format: Type.Integer(),
  /** The version that wrote it. */
  version: Type.String(),
  /** When the copy began: all that was acknowledged before is in it. */
  begun_at: Type.String(),
  files: Type.Integer(),
})

export type Manifest = Static<typeof manifestSchema>

export interface ArchiveRun {
  progress(state: Progress): void
  signal: AbortSignal
}

/** Writes what is in `folder` to `file` (mode 0600, which must not exist) and syncs it. */
export async function writeArchive(
  { folder, file, version, begun_at }: { folder: string; file: string; version: string; begun_at: string },
  run: ArchiveRun,
): Promise<void> {
  const { names, files, bytes } = contentOf(folder)
  const tar = pack()
  const output = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true })
  const compressed = createZstdCompress({ params: compression })
  const written = pipeline(tar, compressed, withDigest(), output, { signal: run.signal })
  const manifest: Manifest = { format: formatVersion, version, begun_at, files }
  // A full disk shows at the output; the entry that is being filled then only knows that it was cut off.
  const results = await Promise.allSettled([written, fill(tar, { folder, names, bytes, manifest }, run)])
  for (const result of results) {
    if (result.status === 'fulfilled') continue
    if (run.signal.aborted) throw new AppError('shutting_down', 'The backup was cancelled.')
    throw systemFault(result.reason) ?? result.reason
  }
}

async function fill(
  tar: Pack,
  { folder, names, bytes, manifest }: { folder: string; names: string[]; bytes: number; manifest: Manifest },
  { progress }: ArchiveRun,
): Promise<void> {
  tar.entry({ name: manifestName, mode: 0o600 }, JSON.stringify(manifest))
  const mtime = new Date(manifest.begun_at)
  let done = 0
  for (const name of names) {
    const path = join(folder, name)
    if (name.endsWith('/')) {
      tar.entry({ name: root + name, mtime, type: 'directory', mode: 0o700 })
      continue
    }
    const { size, mode } = statSync(path)
    const meter = passing((chunk) => {
      done += chunk.length
      progress({ label: 'packing', done, total: bytes })
    })
    const entry = tar.entry({ name: root + name, mtime, size, mode: mode & 0o700 })
    await pipeline(createReadStream(path), meter, entry)
  }
  tar.finalize()
}

export interface ArchiveSink {
  folder(name: string): void
  /** Opens a file that is to be filled and closed. */
  file(name: string, mode: number): Promise<FileHandle>
}

/**
 * Reads all of an archive and gives it to `sink`; without one it is only checked. Throws AppError `not_found`, or
 * `invalid_configuration` for a file that is damaged, is no backup or was written by a newer version.
 */
export async function readArchive(
  file: string,
  sink: ArchiveSink | undefined,
  { progress, signal }: ArchiveRun,
): Promise<Manifest> {
  const { total, digest } = await trailerOf(file)
  const hash = createHash('sha256')
  let done = 0
  const meter = passing((chunk) => {
    hash.update(chunk)
    done += chunk.length
    progress({ label: sink ? 'restoring' : 'checking', done, total })
  })
  const tar = extract()
  const bytes = createReadStream(file, { end: total - 1 })
  const [unpacked, read] = await Promise.allSettled([
    unpack(tar, file, sink),
    pipeline(bytes, meter, createZstdDecompress(), tar, { signal }),
  ])
  if (signal.aborted) throw new AppError('shutting_down', 'It was cancelled.')
  if (unpacked.status === 'rejected') {
    // Where reading failed, whoever waited for it only knows that it was cut off.
    throw read.status === 'rejected' && !(unpacked.reason instanceof AppError)
      ? damaged(file, read.reason)
      : damaged(file, unpacked.reason)
  }
  if (read.status === 'rejected') throw damaged(file, read.reason)
  if (!hash.digest().equals(digest)) throw damaged(file, new Error('the checksum is wrong'))
  return unpacked.value
}

/** What lies before the digest, and the digest. */
async function trailerOf(file: string): Promise<{ total: number; digest: Buffer }> {
  const size = statSync(file, { throwIfNoEntry: false })?.size
  if (size === undefined) throw new AppError('not_found', `There is no file ${file}.`)
  const total = size - trailerBytes
  const handle = await open(file).catch((error: unknown) => {
    throw systemFault(error) ?? error
  })
  try {
    const trailer = Buffer.alloc(trailerBytes)
    if (total > 0) await handle.read(trailer, 0, trailerBytes, total)
    if (!trailer.subarray(0, frameHead.length).equals(frameHead)) {
      throw damaged(file, new Error('its end is missing'))
    }
    return { total, digest: trailer.subarray(frameHead.length) }
  } finally {
    await handle.close()
  }
}

async function unpack(tar: Extract, file: string, sink: ArchiveSink | undefined): Promise<Manifest> {
  let manifest: Manifest | undefined
  for await (const entry of tar) {
    const { name: full, type, mode = 0o600, size = 0 } = entry.header
    if (manifest === undefined) {
      if (full !== manifestName || size > manifestBytesMax) throw new Error('it has no manifest')
      manifest = parseManifest(file, await text(chunksOf(entry)))
      continue
    }
    const name = insideName(full)
    if (type === 'directory') {
      sink?.folder(name)
      entry.resume()
      continue
    }
    if (type !== 'file') throw new Error(`${full} is no file`)
    const target = await sink?.file(name, mode & 0o700)
    try {
      for await (const chunk of chunksOf(entry)) await target?.writeFile(chunk)
    } finally {
      await target?.close()
    }
  }
  if (manifest === undefined) throw new Error('it is empty')
  return manifest
}

/** The library's types leave open what its streams give; without a text encoding that is bytes. */
function chunksOf(entry: AsyncIterable<unknown>): AsyncIterable<Buffer> {
  return entry as AsyncIterable<Buffer>
}

/** A name that leads out of the folder would be written elsewhere. */
function insideName(full: string): string {
  const name = posix.normalize(full).replace(/\/$/, '')
  if (!name.startsWith(root) || name.length === root.length) throw new Error(`${full} is not below ${root}`)
  return name.slice(root.length)
}

function parseManifest(file: string, json: string): Manifest {
  const manifest: unknown = JSON.parse(json)
  if (!Value.Check(manifestSchema, manifest)) throw new Error('its manifest cannot be read')
  if (manifest.format <= formatVersion) return manifest
  throw new AppError(
    'invalid_configuration',
    `${file} was written by version ${manifest.version}, which this one cannot read: restore it with that version.`,
  )
}

/** What could not be written is no fault of the archive. */
function damaged(file: string, cause: unknown): AppError {
  if (cause instanceof AppError) return cause
  return (
    systemFault(cause) ??
    new AppError(
      'invalid_configuration',
      `${file} is damaged, or is no backup (${describeError(cause, 120)}). Take another copy of it.`,
      { cause },
    )
  )
}

/** Folders have a slash behind their names and come before what is in them. */
function contentOf(folder: string): { names: string[]; files: number; bytes: number } {
  const names: string[] = []
  let files = 0
  let bytes = 0
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = path.slice(folder.length + 1).replaceAll(sep, '/')
    names.push(entry.isDirectory() ? `${name}/` : name)
    if (!entry.isFile()) continue
    files++
    bytes += statSync(path).size
  }
  return { names: names.sort(), files, bytes }
}

function passing(look: (chunk: Buffer) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _, next) {
      look(chunk)
      next(null, chunk)
    },
  })
}

function withDigest(): Transform {
  const hash = createHash('sha256')
  return new Transform({
    transform(chunk: Buffer, _, next) {
      hash.update(chunk)
      next(null, chunk)
    },
    flush(next) {
      next(null, Buffer.concat([frameHead, hash.digest()]))
    },
  })
}
