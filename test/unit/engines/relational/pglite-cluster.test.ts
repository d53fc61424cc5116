/** Where the empty cluster of a new data directory comes from. */

import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type ClusterSource, ensureCluster } from '#engines/relational/pglite-cluster.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

/** Makes what counts as a cluster at once; the engines' suites make real ones. */
function sourceIn(kept: string): ClusterSource & { made: number } {
  const source = {
    kept,
    made: 0,
    async initialize(directory: string) {
      mkdirSync(directory)
      writeFileSync(join(directory, 'PG_VERSION'), '18')
      source.made++
    },
  }
  return source
}

test('it is a copy of one that is kept, which is made where there is none', async () => {
  const source = sourceIn(temporaryFolder())
  const first = join(temporaryFolder(), 'postgres')
  await ensureCluster(first, source)
  expect(existsSync(join(first, 'PG_VERSION'))).toBe(true)
  const [name, ...others] = readdirSync(source.kept)
  expect(others).toEqual([])
  // A mark that only a copy of this very folder has.
  writeFileSync(join(source.kept, name!, 'mark'), '')
  const second = join(temporaryFolder(), 'postgres')
  mkdirSync(second)
  await ensureCluster(second, source)
  expect(existsSync(join(second, 'mark'))).toBe(true)
  expect(source.made).toBe(1)
  if (process.platform !== 'win32') expect(statSync(second).mode & 0o777).toBe(0o700)
})

test('a cluster that is there remains as it is, and half a copy of a killed process is made again', async () => {
  const source = sourceIn(temporaryFolder())
  const directory = join(temporaryFolder(), 'postgres')
  mkdirSync(`${directory}.new`)
  writeFileSync(join(`${directory}.new`, 'half'), '')
  await ensureCluster(directory, source)
  expect(existsSync(join(directory, 'half'))).toBe(false)
  expect(existsSync(`${directory}.new`)).toBe(false)
  writeFileSync(join(directory, 'mine'), '')
  rmSync(source.kept, { recursive: true })
  await ensureCluster(directory, source)
  expect(existsSync(join(directory, 'mine'))).toBe(true)
  expect(existsSync(source.kept)).toBe(false)
  expect(source.made).toBe(1)
})

test('it is made in the data directory where nothing can be kept', async () => {
  const folder = temporaryFolder()
  const kept = join(folder, 'a file')
  writeFileSync(kept, '')
  const directory = join(folder, 'postgres')
  await ensureCluster(directory, sourceIn(kept))
  expect(existsSync(join(directory, 'PG_VERSION'))).toBe(true)
})
