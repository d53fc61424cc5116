/** The check of the lock file finds what `npm ci` would refuse, and what it could not check. */

import { expect, it } from 'vitest'
import { lockFaults } from '../../../scripts/lock.ts'

const sound = {
  '': { version: '1.0.0' },
  'packages/own': { version: '1.0.0' },
  'node_modules/own': { link: true },
  'node_modules/@a/b': {
    version: '1.0.0',
    integrity: 'sha512-x',
    optionalDependencies: { '@a/b-linux-x64': '1.0.0' },
  },
  'node_modules/@a/b-linux-x64': { version: '1.0.0', integrity: 'sha512-y' },
}

it('takes a lock file that is whole', () => {
  expect(lockFaults(sound, [])).toEqual([])
})

it('names a native package that is missing', () => {
  const { 'node_modules/@a/b-linux-x64': _, ...without } = sound
  expect(lockFaults(without, [])).toEqual(['@a/b-linux-x64 is missing'])
})

it('names every package without a checksum, wherever it is installed, unless it is excepted', () => {
  const bare = { ...sound, 'node_modules/c/node_modules/@a/d': { version: '2.0.0' } }
  expect(lockFaults(bare, [])).toEqual(['@a/d@2.0.0 has no integrity'])
  expect(lockFaults(bare, ['@a/d@2.0.0'])).toEqual([])
})

it('wants the list of exceptions to shrink', () => {
  expect(lockFaults(sound, ['@a/b@1.0.0'])).toEqual(['@a/b@1.0.0 needs no exception: remove it'])
})
