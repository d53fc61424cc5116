/** Every line of JSON lines is checked, every faulty one is named by its number. */

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { propertyRuns } from '../../../test/support/property-runs.ts'
import type { JsonlFault, SearchRecord } from '../src/contract.ts'
import { lineBytesMax, readJsonl } from '../src/jsonl.ts'
import { temporaryFolder } from './support/temporary.ts'

function read(content: string | Buffer) {
  const file = join(temporaryFolder(), 'records.jsonl')
  writeFileSync(file, content)
  const records: [number, SearchRecord][] = []
  const faults: JsonlFault[] = []
  readJsonl(file, {
    record: (record, line) => records.push([line, record]),
    fault: (fault) => faults.push(fault),
  })
  return { records, faults }
}

const faultOf = (line: string | Buffer) => read(line).faults[0]?.message

describe('reading JSON lines', () => {
  it('gives the searchable fields, the time, and the object as it was', () => {
    const source = {
      id: 'a',
      title: 'T',
      slug: 's',
      mind_path: 'm/p.md',
      body: 'B',
      updated_at: '2026-01-02T03:04:05.006Z',
      x: [1],
    }
    expect(read(JSON.stringify(source)).records).toEqual([
      [
        1,
        {
          ...{ id: 'a', title: 'T', slug: 's', path: 'm/p.md', body: 'B' },
          updatedAtMs: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
          source,
        },
      ],
    ])
  })

  it('names a line that is nested too deep, and goes on', () => {
    const nested = (depth: number) => `{"id":"a","x":${'{"a":'.repeat(depth - 1)}1${'}'.repeat(depth - 1)}}`
    expect(faultOf(nested(128))).toBeUndefined()
    expect(faultOf(nested(129))).toBe('nested deeper than 128 levels')
    expect(faultOf(nested(20_000).replace('1}', '1e400}'))).toBe('nested deeper than 128 levels')
    const { records, faults } = read(`${nested(20_000)}\n{"id":"b"}`)
    expect([records.map(([line]) => line), faults.map(({ line }) => line)]).toEqual([[2], [1]])
  })

  it('takes missing and null fields for empty, and prefers path to mind_path', () => {
    const { records } = read('{"title":null}\n{"path":"p","mind_path":"m"}')
    expect(records[0]![1]).toMatchObject({
      id: null,
      title: '',
      slug: '',
      path: '',
      body: '',
      updatedAtMs: 0,
    })
    expect(records[1]![1].path).toBe('p')
  })

  it.each([
    ['2026-01-02', Date.UTC(2026, 0, 2)],
    ['2026-01-02T03:04', Date.UTC(2026, 0, 2, 3, 4)],
    ['2026-01-02T03:04:05+02:00', Date.UTC(2026, 0, 2, 1, 4, 5)],
    ['2 January 2026', 0],
    ['2026-13-45', 0],
    [17, 0],
  ])('reads the time %s alike in every time zone', (time, expected) => {
    expect(read(JSON.stringify({ updated_at: time })).records[0]![1].updatedAtMs).toBe(expected)
  })

  it('passes over a byte order mark, Windows line ends and empty lines, and counts every line', () => {
    const { records, faults } = read('\ufeff{"id":"a"}\r\n\r\n  \n{"id":"b"}\r\nnot json\r\n{"id":"c"}')
    expect(records.map(([line, { id }]) => [line, id])).toEqual([
      [1, 'a'],
      [4, 'b'],
      [6, 'c'],
    ])
    expect(faults).toEqual([{ line: 5, message: 'not valid JSON' }])
  })

  it('names the fault of a line', () => {
    expect(faultOf('[1]')).toBe('not a JSON object but an array')
    expect(faultOf('null')).toBe('not a JSON object but null')
    expect(faultOf('"text"')).toBe('not a JSON object but a string')
    expect(faultOf('{"id":7}')).toBe('id must be a string, not a number')
    expect(faultOf('{"body":{"en":"x"}}')).toBe('body must be a string, not an object')
    expect(faultOf('{"mind_path":["x"]}')).toBe('mind_path must be a string, not an array')
    expect(faultOf('{"id":""}')).toContain('1 to 512 characters')
    expect(faultOf(`{"id":"${'x'.repeat(513)}"}`)).toContain('1 to 512 characters')
    expect(faultOf('{"id":"\\ud800"}')).toContain('lone surrogates')
    expect(faultOf('{"id":1e400}')).toBe('id must be a string, not a number')
    expect(faultOf('12345678901234567890')).toBe('not a JSON object but a number')
    expect(faultOf(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]))).toBe('not valid UTF-8')
    expect(faultOf(Buffer.from('{"id":"a"}', 'utf16le'))).toBe('not valid JSON')
    expect(faultOf('['.repeat(500_000))).toBe('not valid JSON')
    expect(faultOf('{"id":"a"}{"id":"b"}')).toBe('not valid JSON')
  })

  it('refuses texts that UTF-8 cannot hold, rather than change them', () => {
    const inField = (field: string) => faultOf(`{"id":"a","${field}":"one \\ud83d two"}`)
    for (const field of ['title', 'slug', 'path', 'mind_path', 'body', 'status']) {
      expect(inField(field)).toBe(`${field} must have no lone surrogates`)
    }
    expect(faultOf('{"tags":["a","\\udc00"]}')).toBe('a value must have no lone surrogates')
    expect(faultOf('{"nested":{"a":[{"b":"\\ud800"}]}}')).toBe('a value must have no lone surrogates')
    expect(faultOf('{"\\ud800":1}')).toBe('the name of a field must have no lone surrogates')
    expect(read('{"id":"a","body":"\\ud83d\\ude00"}').records[0]![1].body).toBe('😀')
  })

  it('takes ids of 512 characters, whatever bytes they have, and names of the language as fields', () => {
    const { records } = read(`{"id":"${'😀'.repeat(512)}"}\n{"__proto__":{"title":"no"},"constructor":1}`)
    expect(records[0]![1].id).toHaveLength(1024)
    expect(records[1]![1].title).toBe('')
    expect(Object.keys(records[1]![1].source)).toEqual(['__proto__', 'constructor'])
  })

  it('skips a line beyond the maximum and goes on behind it', () => {
    const { records, faults } = read(
      Buffer.concat([Buffer.alloc(lineBytesMax + 1, 'x'), Buffer.from('\n{"id":"b"}\n')]),
    )
    expect(faults).toEqual([{ line: 1, message: `longer than ${lineBytesMax} bytes` }])
    expect(records.map(([line, { id }]) => [line, id])).toEqual([[2, 'b']])
  })

  it('gives the same records wherever a chunk ends', () => {
    const body = 'ж'.repeat(700_000)
    const lines = [1, 2, 3].map((id) => JSON.stringify({ id: String(id), body }))
    expect(
      read(lines.join('\n')).records.map(([line, record]) => [line, record.id, record.body === body]),
    ).toEqual([
      [1, '1', true],
      [2, '2', true],
      [3, '3', true],
    ])
  })

  it('never throws, and takes or refuses every line', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.json(), fc.string()), { maxLength: 8 }), (given) => {
        const lines = given.map((line) => line.replaceAll(/[\n\r]/g, ' '))
        const { records, faults } = read(lines.join('\n'))
        expect(records.length + faults.length).toBe(lines.filter((line) => line.trim() !== '').length)
      }),
      { numRuns: propertyRuns(200) },
    )
  })

  it('says in one line why a file cannot be read', () => {
    const folder = temporaryFolder()
    const handlers = { record() {}, fault() {} }
    expect(() => readJsonl(folder, handlers)).toThrow(`cannot read ${folder}: it is a directory`)
    expect(() => readJsonl(join(folder, 'none'), handlers)).toThrow('there is no such file')
  })

  it('reads standard input that comes slowly', () => {
    const module = fileURLToPath(new URL('../src/jsonl.ts', import.meta.url))
    const script = `import { readJsonl } from ${JSON.stringify(module)}
      let count = 0
      readJsonl('-', { record() { count++ }, fault() {} })
      process.stdout.write(String(count))`
    const command =
      '(printf \'{"id":"a"}\\n{"id"\'; sleep 0.3; printf \':"b"}\') | "$0" --input-type=module -e "$1"'
    expect(execFileSync('sh', ['-c', command, process.execPath, script], { encoding: 'utf8' })).toBe('2')
  })
})
