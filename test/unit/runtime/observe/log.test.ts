/** Logs of a process. */

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createLog } from '#runtime/observe/log.ts'

test('a process listens for its exit once, however many logs it makes', () => {
  createLog()
  const before = process.listenerCount('exit')
  for (let n = 0; n < 20; n++) createLog({ level: 'warn' })
  expect(process.listenerCount('exit')).toBe(before)
})

/** What a process writes to standard error that logs this value. */
function logged(value: string, terminal: boolean): string {
  const code = `
    const { createLog } = await import('#runtime/observe/log.ts')
    createLog({ terminal: ${terminal} }).info({ agent: ${JSON.stringify(value)} }, 'a.line')`
  const root = join(import.meta.dirname, '../../../..')
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { cwd: root })
  return String(stderr)
}

test('no value of a line acts on a terminal', () => {
  const value = 'a\x1b[2J\x9b2J\u202e\u2028b'
  const json = logged(value, false)
  expect([JSON.parse(json).agent, json]).toEqual([
    value,
    expect.not.stringMatching(/(?!\n)[\p{Cc}\u2028\u202e]/u),
  ])
  const lines = logged(value, true)
  expect(lines).toContain('\\x9b2J\\u202e\\u2028b')
  expect(lines).not.toMatch(/[\x80-\x9f\u2028\u202e]/)
})
