/** A folder that is being restored belongs to the restore until all of it is there. */

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { dataDirectoryFault, openDataDirectory, restoringFile } from '#lib/data-directory.ts'
import { writeArchive } from '#operations/backup/archive.ts'
import { restoreInto } from '#operations/backup/restore.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

const run = { progress() {}, signal: new AbortController().signal }

async function aBackup(): Promise<string> {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'log'))
  writeFileSync(join(folder, 'log', 'records'), 'records')
  writeFileSync(join(folder, 'secret-key'), 'key')
  const file = join(temporaryFolder(), 'backup')
  await writeArchive({ folder, file, version: '0', begun_at: '2026-01-01T00:00:00.000Z' }, run)
  return file
}

const textOf = (home: string) => readFileSync(join(home, 'log', 'records'), 'utf8')

describe('a restore', () => {
  it('is marked while it runs, and no start takes the folder', async () => {
    const home = join(temporaryFolder(), 'home')
    const file = await aBackup()
    const result = await restoreInto({ home, file }, run, async ({ files }) => {
      expect(textOf(home)).toBe('records')
      const fault = { code: 'invalid_configuration', message: expect.stringContaining('was not finished') }
      expect(dataDirectoryFault(home)).toMatchObject(fault)
      await expect(openDataDirectory(home)).rejects.toMatchObject(fault)
      return files
    })
    expect(result).toBe(2)
    expect(existsSync(join(home, restoringFile))).toBe(false)
    expect(dataDirectoryFault(home)).toBeNull()
    await (await openDataDirectory(home)).close()
  })

  it('begins again where an earlier one ended in the midst, with nothing of that left', async () => {
    const home = temporaryFolder()
    const file = await aBackup()
    const ended = restoreInto({ home, file }, run, () => Promise.reject(new Error('cut off')))
    await expect(ended).rejects.toThrow('cut off')
    expect(existsSync(join(home, restoringFile))).toBe(true)
    writeFileSync(join(home, 'log', 'half'), 'half')
    await restoreInto({ home, file }, run, async () => {})
    expect(textOf(home)).toBe('records')
    expect(readdirSync(join(home, 'log'))).toEqual(['records'])
    expect(existsSync(join(home, restoringFile))).toBe(false)
  })

  it('refuses a folder that holds anything, and leaves it as it is', async () => {
    const home = temporaryFolder()
    writeFileSync(join(home, 'mine'), 'mine')
    await expect(restoreInto({ home, file: await aBackup() }, run, async () => {})).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('is not empty'),
    })
    expect(readdirSync(home)).toEqual(['mine'])
  })

  it('of a damaged file leaves an empty folder', async () => {
    const home = temporaryFolder()
    const file = await aBackup()
    const bytes = readFileSync(file)
    bytes[bytes.length >> 1]! ^= 1
    writeFileSync(file, bytes)
    await expect(restoreInto({ home, file }, run, async () => {})).rejects.toThrow('is damaged')
    expect(readdirSync(home)).toEqual([])
  })
})
