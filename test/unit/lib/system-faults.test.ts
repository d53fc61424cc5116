/** Faults of the operating system, in words. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { explainSystemFault, openFilesFault, systemFault } from '#lib/system-faults.ts'

const fault = (code: string, path?: string) => Object.assign(new Error(`${code}: text`), { code, path })

test('a fault names its path, the problem and its code, wherever it is in the chain of causes', () => {
  const outer = new Error('cannot', { cause: fault('EROFS', '/data/log') })
  expect(systemFault(outer)).toMatchObject({
    code: 'invalid_configuration',
    message: '/data/log: the file system is read-only (EROFS).',
  })
})

test('too many open files is no fault of the path at which they ran out', () => {
  const { message } = systemFault(fault('EMFILE', '/app/engines/open.ts'))!
  expect(message).toMatch(/ulimit -n/)
  expect(message).not.toContain('/app')
})

test('other errors are not explained', () => {
  for (const error of [new Error('no'), fault('EUNHEARD'), { code: 'toString' }, null, undefined, 'EROFS']) {
    expect([explainSystemFault(error), systemFault(error)]).toEqual([null, null])
  }
  expect(() => readFileSync('/nowhere/at/all')).toThrow(expect.toSatisfy((e) => systemFault(e) !== null))
})

test('this machine lets a process open enough files', () => {
  expect(openFilesFault()).toBeNull()
})
