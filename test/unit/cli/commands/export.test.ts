/** Where `flotilla export` may write: nothing of others is replaced by a name that was mistyped. */

import { existsSync, lstatSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openSink } from '../../../../cli/commands/export.ts'
import { runCommand } from '../../../support/command-line.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

it('refuses a file of others before it opens anything', async () => {
  const folder = temporaryFolder()
  const output = join(folder, 'thesis.txt')
  writeFileSync(output, 'years of work')
  const env = { FLOTILLA_HOME: join(folder, 'home') }
  const { code, printed } = await runCommand(['export', 'posts', '--output', output, '--json'], env)
  expect([code, JSON.parse(printed)]).toEqual([
    1,
    { error: { code: 'conflict', message: expect.stringContaining(`${output} is no export`) } },
  ])
  expect(readFileSync(output, 'utf8')).toBe('years of work')
  expect(existsSync(env.FLOTILLA_HOME)).toBe(false)
})

it('replaces what it wrote before, an empty file, and others by force; links stay', () => {
  const folder = temporaryFolder()
  const file = join(folder, 'points.jsonl')
  const link = join(folder, 'link')
  symlinkSync(file, link)
  for (const [before, force] of [
    ['', false],
    ['{"id":"a"}\n', false],
    ['other', true],
  ] as const) {
    writeFileSync(file, before)
    const sink = openSink(link, force)
    sink.write('{"id":"b"}\n')
    expect(readFileSync(file, 'utf8')).toBe(before)
    sink.finish()
    expect(readFileSync(file, 'utf8')).toBe('{"id":"b"}\n')
  }
  expect(lstatSync(link).isSymbolicLink()).toBe(true)
  expect(readdirSync(folder).sort()).toEqual(['link', 'points.jsonl'])
})

it('replaces only regular files', () => {
  expect(() => openSink('/dev/null', true)).toThrow(/no regular file/)
  expect(() => openSink(temporaryFolder(), true)).toThrow(/no regular file/)
  expect(lstatSync('/dev/null').isCharacterDevice()).toBe(true)
})
