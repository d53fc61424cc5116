/** The data directory has one owner at a time. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { dataDirectoryFault, dataDirectoryOwner, openDataDirectory } from '#lib/data-directory.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary.ts'

const owner = fileURLToPath(new URL('../../support/data-directory-owner.ts', import.meta.url))
const modeOf = (path: string) => statSync(path).mode & 0o777

/** Another process that owns the directory. */
async function openOwner(path: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [owner, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child.stdout!, 'data')
  return child
}

test('it is made with its run folder, for this user alone', async () => {
  const path = join(temporaryFolder(), 'deep', 'home')
  const directory = await openDataDirectory(path)
  onTestFinished(() => directory.close())
  expect([modeOf(path), modeOf(join(path, 'run'))]).toEqual([0o700, 0o700])
})

test('a folder that exists with wider rights is narrowed', async () => {
  const path = join(temporaryFolder(), 'home')
  mkdirSync(path, { mode: 0o755 })
  const directory = await openDataDirectory(path)
  onTestFinished(() => directory.close())
  expect(modeOf(path)).toBe(0o700)
})

test('a second owner in the same process is refused, too', async () => {
  const path = temporaryFolder()
  const directory = await openDataDirectory(path)
  await expect(openDataDirectory(path)).rejects.toMatchObject({
    code: 'data_directory_in_use',
    message: expect.stringContaining(String(process.pid)),
  })
  await directory.close()
  await directory.close()
  await (await openDataDirectory(path)).close()
})

test('a second process is refused, naming the owner; kill -9 frees the directory', async () => {
  const path = temporaryFolder()
  const child = await openOwner(path)
  await expect(openDataDirectory(path)).rejects.toMatchObject({
    code: 'data_directory_in_use',
    message: expect.stringMatching(new RegExp(`process ${child.pid}\\b.*FLOTILLA_HOME`)),
  })
  child.kill('SIGKILL')
  const directory = await eventually('free', () => openDataDirectory(path))
  await directory.close()
})

test('the name of an owner that is gone is no lock', async () => {
  const path = temporaryFolder()
  writeFileSync(join(path, 'owner.pid'), '1\n')
  await (await openDataDirectory(path)).close()
})

test('a place that cannot be used is named with the reason, before and at the opening, and nothing is made', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'file')
  writeFileSync(file, '')
  const places = [
    [file, 'is a file'],
    [join(file, 'below'), 'a file, not a folder'],
    [join(folder, 'n'.repeat(300)), 'too long'],
    ...(existsSync('/proc/self') ? [['/proc/flotilla/home', '']] : []),
  ] as const
  for (const [path, why] of places) {
    const fault = { code: 'invalid_configuration', message: expect.stringMatching(`FLOTILLA_HOME.*${why}`) }
    expect(dataDirectoryFault(path)).toMatchObject(fault)
    await expect(openDataDirectory(path)).rejects.toMatchObject(fault)
  }
  const missing = join(folder, 'a', 'b')
  expect(dataDirectoryFault(missing)).toBeNull()
  expect([existsSync(join(folder, 'a')), existsSync(join(folder, 'run'))]).toEqual([false, false])
})

test('whether it has an owner is seen without making or taking anything', async () => {
  const path = join(temporaryFolder(), 'home')
  expect(dataDirectoryOwner(path)).toBeNull()
  expect(existsSync(path)).toBe(false)
  const directory = await openDataDirectory(path)
  expect(dataDirectoryOwner(path)).toBe(String(process.pid))
  await directory.close()
  expect(dataDirectoryOwner(path)).toBeNull()
})
