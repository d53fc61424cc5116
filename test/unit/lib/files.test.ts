/** Making folders, also where none can be made. */

import { spawnSync } from 'node:child_process'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { makeFolder } from '#lib/files.ts'
import { temporaryFolder } from '../../support/temporary.ts'

test('all of a path is made for this user alone, and made again without harm', () => {
  const path = join(temporaryFolder(), 'a', 'b', 'c')
  makeFolder(path)
  makeFolder(path)
  expect(statSync(path).mode & 0o777).toBe(0o700)
  expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700)
})

test('a file in the way is a fault', () => {
  const file = join(temporaryFolder(), 'file')
  writeFileSync(file, '')
  expect(() => makeFolder(file)).toThrow(/EEXIST/)
  expect(() => makeFolder(join(file, 'below'))).toThrow(/ENOTDIR/)
})

test.runIf(existsSync('/proc/self'))('where the system takes no folders it ends with a fault', () => {
  const module = fileURLToPath(new URL('../../../lib/files.ts', import.meta.url))
  // In a process of its own: an endless loop here would end no test.
  const code = `import(${JSON.stringify(module)}).then(({ makeFolder }) => makeFolder('/proc/x/y'))`
  const { status, stderr } = spawnSync(process.execPath, ['-e', code], { timeout: 10_000, encoding: 'utf8' })
  expect([status, stderr]).toEqual([1, expect.stringContaining('ENOENT')])
})
