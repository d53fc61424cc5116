/** The address file of a process that was killed. */

import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import {
  readAddresses,
  removeLeftAddresses,
  runFile,
  writeAddresses,
  writeByRename,
} from '#runtime/start/addresses.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

let home: string
beforeEach(() => {
  home = temporaryFolder()
})

const leave = (pid: number) => writeByRename(runFile(home, 'addresses.json'), { pid })

test('names the process that was killed, once', () => {
  const dead = Number(execFileSync(process.execPath, ['-p', 'process.pid']))
  leave(dead)
  expect(removeLeftAddresses(home)).toBe(dead)
  expect(removeLeftAddresses(home)).toBeNull()
})

test('a predecessor in a container had the same id', () => {
  writeAddresses(home, {})
  expect(removeLeftAddresses(home)).toBe(process.pid)
})

test('a process that runs was not killed, and half a file says nothing', () => {
  leave(process.ppid)
  expect(removeLeftAddresses(home)).toBeNull()
  expect(readAddresses(home)).toBeNull()
  mkdirSync(join(home, 'run'), { recursive: true })
  writeFileSync(runFile(home, 'addresses.json'), '{"pid":')
  expect(removeLeftAddresses(home)).toBeNull()
})
