/** Numbers that a double cannot hold: kept digit by digit from the line to the answer, or refused. */

import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isRawJson, parseExact } from '../src/exact-json.ts'
import { buildFrom } from './support/index.ts'
import { temporaryFolder } from './support/temporary.ts'

const large =
  '{"id":"a","n":12345678901234567890,"list":[1e400,0.1],"at":{"deep":-9007199254740993},"body":"1e400"}'

/** Runs a module in a process of its own; a file, because the thread of `index-jsonl` inherits the options of Node. */
function run(script: string, folder: string): { stdout: string; stderr: string } {
  writeFileSync(join(folder, 'script.mjs'), script)
  const { stdout, stderr } = spawnSync(process.execPath, ['script.mjs'], { cwd: folder, encoding: 'utf8' })
  return { stdout, stderr }
}

const moduleOf = (name: string) => JSON.stringify(new URL(`../src/${name}`, import.meta.url).href)

describe('JSON that is passed on', () => {
  const beyond = ['12345678901234567890', '1e400', '-1E+999', '0.12345678901234567890', '1e-400']

  it.each([...beyond, '9007199254740993'])('keeps the digits of %s', (digits) => {
    const text = `{"a":[${digits}],"b":${digits}}`
    const value = parseExact(text) as { a: unknown[]; b: unknown }
    expect(JSON.stringify(value)).toBe(text)
    expect([value.a[0], value.b].map(isRawJson)).toEqual([true, true])
  })

  it.each([
    ['9007199254740992', 9007199254740992],
    ['1.50000000000000000000', 1.5],
    ['0.1', 0.1],
    ['100000000000000000000000', 1e23],
    ['0.30000000000000004', 0.1 + 0.2],
    ['1e+0022', 1e22],
    ['0e999', 0],
    ['2e-308', 2e-308],
  ])('takes %s for the number that it is', (digits, number) => {
    expect(parseExact(`[${digits},123456789012345678901]`)).toEqual([number, expect.anything()])
  })

  it('takes what JSON.stringify writes as JSON.parse does', () => {
    const text =
      '{"id":"3e123-0123456789abcdef","at":1764359000.123456,"n":[1e+21,5e-324,-0.5],"__proto__":{"a":1}}'
    expect(JSON.stringify(parseExact(text))).toBe(text)
    expect(parseExact(text)).toEqual(JSON.parse(text))
    const others = '{"a":1764359000.1234560,"b":12345678901234567890,"c":-0}'
    expect(JSON.stringify(parseExact(others))).toBe('{"a":1764359000.123456,"b":12345678901234567890,"c":-0}')
  })

  it('leaves texts alone, and refuses text that is no JSON', () => {
    const text = '{"12345678901234567890":"1e400 and 12345678901234567890","__proto__":1e400}'
    expect(JSON.stringify(parseExact(text))).toBe(text)
    expect(() => parseExact('{"a":1e400')).toThrow(SyntaxError)
    expect(() => parseExact('01234567890123456789')).toThrow(SyntaxError)
  })
})

describe('a record with such numbers', () => {
  it('comes back as it was, through the commands', () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'notes.jsonl'), `${large}\n`)
    const indexed = run(
      `const { indexJsonl } = await import(${moduleOf('command/index-jsonl.ts')})
      process.exitCode = await indexJsonl(['--input', 'notes.jsonl', '--output', 'index.stidx', '--json'])`,
      folder,
    )
    expect(JSON.parse(indexed.stdout)).toMatchObject({ records: 1, faults: 0 })
    const ask = (...args: string[]) =>
      run(
        `const { runCommand } = await import(${moduleOf('command/run.ts')})
        process.exitCode = runCommand(${JSON.stringify(args)}, {})`,
        folder,
      ).stdout
    expect(ask('get', 'a', '--json')).toBe(`${large}\n`)
    expect(ask('get', 'a')).toContain('12345678901234567890')
    expect(ask('search', 'n:12345678901234567890', '--json')).toContain('"n":12345678901234567890')
  })

  it('is found by them, as they are written', () => {
    const others = ['{"id":"b","n":12345678901234567891}', '{"id":"c","list":[1e400]}']
    const index = buildFrom([large, ...others]).open()
    const ids = (query: string) => index.search(query).results.map(({ id }) => id)
    expect(ids('n:12345678901234567890')).toEqual(['a'])
    expect(ids('n:12345678901234567891')).toEqual(['b'])
    expect(ids('list:1e400')).toEqual(['a', 'c'])
    expect(ids('list:0.1')).toEqual(['a'])
    index.close()
  })
})

describe('a runtime that keeps no digits', () => {
  const before = 'delete JSON.rawJSON; delete JSON.isRawJSON;'

  it('refuses the line, and takes those whose numbers it can hold', () => {
    const folder = temporaryFolder()
    const fine = '{"id":"b","n":1.50000000000000000000,"body":"12345678901234567890 \\" 1e400"}'
    writeFileSync(join(folder, 'notes.jsonl'), `${large}\n${fine}\n`)
    const { stdout, stderr } = run(
      `${before}
      const { readJsonl } = await import(${moduleOf('jsonl.ts')})
      const lines = []
      const [record, fault] = [({ id }) => lines.push(id), ({ message }) => lines.push(message)]
      readJsonl('notes.jsonl', { record, fault })
      process.stdout.write(JSON.stringify(lines))`,
      folder,
    )
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual([
      'the number 12345678901234567890 needs Node 22 or newer, or to be written as a text',
      'b',
    ])
  })

  it('says so of an index that another one built, and does not call it damaged', () => {
    const { file, folder } = buildFrom([large])
    const { stdout } = run(
      `${before}
      const { openIndex } = await import(${moduleOf('index-file.ts')})
      try { openIndex(${JSON.stringify(file)}).get('a') } catch (error) { process.stdout.write(error.message) }`,
      folder,
    )
    expect(stdout).toMatch(
      /^index.stidx cannot be read: the number 12345678901234567890 needs Node 22 or newer/,
    )
  })
})
