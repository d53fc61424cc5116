/** The file of a backup gives back what went in, and says so when it does not. */

import { createHash } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { createZstdCompress } from 'node:zlib'
import { pack } from 'tar-stream'
import { expect, test } from 'vitest'
import { type ArchiveSink, readArchive, writeArchive } from '#operations/backup/archive.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

const run = () => ({ progress() {}, signal: new AbortController().signal })
const about = { version: '1.2.3', begun_at: '2026-01-02T03:04:05.000Z' }

/** A folder with an empty folder, an empty file, one of several chunks, and a private one. */
function filledFolder(): string {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'postgres', 'pg_twophase'), { recursive: true })
  mkdirSync(join(folder, 'agents', 'scout'), { recursive: true })
  writeFileSync(join(folder, 'postgres', 'PG_VERSION'), '18\n')
  writeFileSync(join(folder, 'postgres', 'empty'), '')
  writeFileSync(join(folder, 'log'), Buffer.alloc(300_000, 'a record '))
  writeFileSync(join(folder, 'agents', 'scout', 'ed25519.pem'), 'private', { mode: 0o600 })
  chmodSync(join(folder, 'log'), 0o644)
  return folder
}

async function archived(): Promise<{ folder: string; file: string }> {
  const folder = filledFolder()
  const file = join(temporaryFolder(), 'backup.tar.zst')
  await writeArchive({ folder, file, ...about }, run())
  return { folder, file }
}

const sinkInto = (folder: string): ArchiveSink => ({
  folder: (name) => void mkdirSync(join(folder, name), { recursive: true }),
  file: (name, mode) => open(join(folder, name), 'wx', mode),
})

test('it is for its owner alone, holds every file and folder, and takes other rights away', async () => {
  const { folder, file } = await archived()
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const target = temporaryFolder()
  const progress: number[] = []
  const manifest = await readArchive(file, sinkInto(target), {
    ...run(),
    progress: ({ done }) => progress.push(done),
  })
  expect(manifest).toEqual({ format: 1, files: 4, ...about })
  const content = (of: string) => readdirSync(of, { recursive: true }).sort()
  expect(content(target)).toEqual(content(folder))
  for (const path of ['log', 'postgres/PG_VERSION', 'postgres/empty', 'agents/scout/ed25519.pem']) {
    expect(readFileSync(join(target, path)), path).toEqual(readFileSync(join(folder, path)))
  }
  expect(statSync(join(target, 'log')).mode & 0o777).toBe(0o600)
  expect(progress.at(-1)).toBeLessThan(statSync(file).size)
})

test('a byte that is damaged anywhere, and an end that is missing, are found', async () => {
  const { file } = await archived()
  const sound = readFileSync(file)
  for (let place = 0; place < sound.length; place++) {
    const bytes = Buffer.from(sound)
    bytes[place] = bytes[place]! ^ 0x40
    writeFileSync(file, bytes)
    await expect(readArchive(file, undefined, run()), `byte ${place}`).rejects.toMatchObject({
      code: 'invalid_configuration',
      message: expect.stringContaining(`${file} is damaged`),
    })
  }
  for (const length of [0, 3, sound.length >> 1, sound.length - 1]) {
    writeFileSync(file, sound)
    truncateSync(file, length)
    await expect(readArchive(file, undefined, run()), `${length} bytes`).rejects.toThrow('is damaged')
  }
  writeFileSync(file, sound)
  appendFileSync(file, 'more')
  await expect(readArchive(file, undefined, run())).rejects.toThrow('is damaged')
})

test('a file that is not a backup is refused', async () => {
  const file = join(temporaryFolder(), 'file')
  await expect(readArchive(file, undefined, run())).rejects.toMatchObject({ code: 'not_found' })
  writeFileSync(file, 'a text')
  await expect(readArchive(file, undefined, run())).rejects.toThrow('or is no backup')
})

/** A tar of these entries with a right checksum, as anyone could make one. */
async function foreign(entries: { name: string; text: string }[]): Promise<string> {
  const file = join(temporaryFolder(), 'foreign.tar.zst')
  const tar = pack()
  for (const { name, text } of entries) tar.entry({ name }, text)
  tar.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of tar.pipe(createZstdCompress())) chunks.push(chunk as Buffer)
  const digest = createHash('sha256').update(Buffer.concat(chunks)).digest()
  const frame = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 32, 0, 0, 0])
  writeFileSync(file, Buffer.concat([...chunks, frame, digest]))
  return file
}

const manifest = { format: 1, files: 0, ...about }
const manifestEntry = { name: 'manifest.json', text: JSON.stringify(manifest) }

test('one of a newer format names the version that reads it', async () => {
  const text = JSON.stringify({ ...manifest, format: 2, version: '9.9.9' })
  const file = await foreign([{ name: 'manifest.json', text }])
  await expect(readArchive(file, undefined, run())).rejects.toThrow('written by version 9.9.9')
})

test('a name that leads out of the folder is not written', async () => {
  const target = temporaryFolder()
  for (const name of ['data/../../escaped', '/etc/escaped', 'escaped', 'data/a/../../../escaped']) {
    const file = await foreign([manifestEntry, { name, text: 'text' }])
    await expect(readArchive(file, sinkInto(target), run()), name).rejects.toThrow('is damaged')
  }
})

test('one that is cancelled says so', async () => {
  const { file } = await archived()
  const cancelled = { progress() {}, signal: AbortSignal.abort() }
  await expect(readArchive(file, undefined, cancelled)).rejects.toMatchObject({ code: 'shutting_down' })
})
