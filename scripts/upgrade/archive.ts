/** Packs a folder into one small file and unpacks it: the system's tar, compressed by Node with a long window. */

import { spawn } from 'node:child_process'
import { createReadStream, createWriteStream, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'

/** Two embedded Postgres clusters are nearly the same bytes, 40 MB apart. */
const windowLog = 27
const smallest = {
  [constants.ZSTD_c_compressionLevel]: 19,
  [constants.ZSTD_c_windowLog]: windowLog,
  [constants.ZSTD_c_enableLongDistanceMatching]: 1,
}

/** `leftOut` are patterns of tar, relative to the folder. */
export async function pack(folder: string, file: string, leftOut: string[]): Promise<void> {
  const excluded = leftOut.map((pattern) => `--exclude=${pattern}`)
  const args = ['--format=ustar', '--numeric-owner', ...excluded, '-C', folder, '-cf', '-', '.']
  // macOS would add files with attributes of its own.
  const env = { ...process.env, COPYFILE_DISABLE: '1' }
  const tar = spawn('tar', args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  const ended = endOf(tar)
  await pipeline(tar.stdout, createZstdCompress({ params: smallest }), createWriteStream(file))
  await ended
}

/** The folder must be there. By way of a file: tar may end before it has read all of a pipe, which breaks the pipe. */
export async function unpack(file: string, folder: string): Promise<void> {
  const archive = join(folder, 'unpacked.tar')
  const params = { [constants.ZSTD_d_windowLogMax]: windowLog }
  await pipeline(createReadStream(file), createZstdDecompress({ params }), createWriteStream(archive))
  await endOf(spawn('tar', ['--no-same-owner', '-C', folder, '-xf', archive], { stdio: 'inherit' }))
  rmSync(archive)
}

function endOf(tar: ReturnType<typeof spawn>): Promise<void> {
  return new Promise((resolve, reject) => {
    tar.once('error', reject)
    tar.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`tar ended with ${code}`))))
  })
}
