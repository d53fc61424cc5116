/** Building from records: which stay, under which ids, in which order, and the files after a failed build. */

import { once } from 'node:events'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { crc32 as builtIn } from '../src/build/checksum.ts'
import { buildIndex } from '../src/build.ts'
import { crc32 } from '../src/checksum.ts'
import { buildFrom, linesOf, sampleRecords } from './support/index.ts'
import { temporaryFolder } from './support/temporary.ts'

describe('a build', () => {
  it('keeps the last of several records with one id, and counts the others', () => {
    const { report, open } = buildFrom([
      { id: 'a', title: 'first words' },
      { id: 'b', title: 'other' },
      { id: 'a', title: 'second writing' },
    ])
    expect(report).toMatchObject({ records: 2, duplicates: 1, faults: 0 })
    const index = open()
    expect(index.get('a')).toEqual({ id: 'a', title: 'second writing' })
    expect(index.search('first').total).toBe(0)
    expect(index.search('second').results.map(({ id }) => id)).toEqual(['a'])
    expect(index.stats()).toMatchObject({ records: 2, words: { title: 3 } })
  })

  it('makes an id from the path or else from the content, the same each time', () => {
    const lines = [{ path: 'a/b.md', title: 'x' }, { title: 'only a title' }]
    const ids = () =>
      buildFrom(lines)
        .open()
        .search('title x', { limit: 5 })
        .results.map(({ id }) => id)
        .sort()
    expect(ids()).toHaveLength(2)
    for (const id of ids()) expect(id).toMatch(/^STIDX001-[0-9a-f]{32}$/)
    expect(ids()).toEqual(ids())
  })

  it('gives back the record as it was, in any script', () => {
    const record = {
      id: '東/1',
      title: 'a "b" \n c',
      body: 'x\u0000y 🐳',
      mind_path: 'm/d.md',
      nested: { a: [1, null] },
      tags: [],
    }
    const index = buildFrom([record]).open()
    expect(index.get('東/1')).toEqual(record)
    expect(index.search('東/1').results[0]).toMatchObject({
      path: 'm/d.md',
      slug: null,
      payload: { nested: { a: [1, null] } },
    })
  })

  it('puts exact id, slug and title first, in this order', () => {
    const { results } = buildFrom([
      { id: 'text', body: 'blue whale blue whale blue whale' },
      { id: 'title', title: 'Blue  Whale' },
      { id: 'slug', slug: 'blue whale' },
      { id: 'blue whale', title: 'nothing' },
    ])
      .open()
      .search('blue whale')
    expect(results.map(({ id }) => id)).toEqual(['blue whale', 'slug', 'title', 'text'])
  })

  it('breaks ties by the newest, then by id', () => {
    const at = (id: string, updated_at?: string) => ({
      id,
      title: 'same',
      ...(updated_at ? { updated_at } : {}),
    })
    const { results } = buildFrom([
      at('b'),
      at('a'),
      at('new', '2026-03-01T00:00:00Z'),
      at('newer', '2026-03-01T03:00:00+01:00'),
      at('é'),
    ])
      .open()
      .search('same words')
    expect(results.map(({ id }) => id)).toEqual(['newer', 'new', 'a', 'b', 'é'])
  })

  it('is the same file however often it spilled to the disk', () => {
    const lines = sampleRecords(400)
    const whole = buildFrom(lines).bytes()
    expect(buildFrom(lines, { listBytesHeldMax: 2000 }).bytes().equals(whole)).toBe(true)
    expect(buildFrom(lines).bytes().equals(whole)).toBe(true)
  })

  it('makes an index of nothing', () => {
    const { report, open } = buildFrom([])
    expect(report).toMatchObject({ records: 0, faults: 0 })
    expect(open().search('anything at all "so to" x* tag:y').total).toBe(0)
    expect(open().get('a')).toBeNull()
  })

  it('skips faulty lines with their numbers, or stops at the first when it is strict', () => {
    const lines = ['{"id":"a","title":"one"}', '{broken', '', '[1]', '{"id":"b","title":"two"}']
    const faults: number[] = []
    const { report } = buildFrom(lines, { onFault: ({ line }) => faults.push(line) })
    expect(report).toMatchObject({ records: 2, faults: 2 })
    expect(faults).toEqual([2, 4])
    expect(() => buildFrom(lines, { strict: true })).toThrow(/^line 2: /)
  })

  it('leaves the old index whole and nothing next to it when it fails', () => {
    const { file, folder, open } = buildFrom([{ id: 'old', title: 'old' }])
    const input = join(folder, 'more.jsonl')
    writeFileSync(input, linesOf([...sampleRecords(50), '{broken']))
    expect(() => buildIndex({ input, output: file, strict: true })).toThrow(/^line 51: /)
    expect(() => buildIndex({ input: join(folder, 'none'), output: file })).toThrow(/none/)
    expect(open().get('old')).toEqual({ id: 'old', title: 'old' })
    expect(readdirSync(folder).sort()).toEqual(['index.stidx', 'more.jsonl', 'records.jsonl'])
  })

  it('clears away what a killed build left, and nothing of a running one', () => {
    const { file, folder } = buildFrom([{ id: 'a', title: 'a' }])
    mkdirSync(join(folder, '.index.stidx.building-999999999'))
    mkdirSync(join(folder, `.index.stidx.building-${process.ppid}`))
    buildIndex({ input: join(folder, 'records.jsonl'), output: file })
    expect(readdirSync(folder).filter((name) => name.startsWith('.'))).toEqual([
      `.index.stidx.building-${process.ppid}`,
    ])
  })

  it('does not overwrite its own input nor a file that is no index', () => {
    const folder = temporaryFolder()
    const input = join(folder, 'records.jsonl')
    writeFileSync(input, linesOf([{ id: 'a', title: 'a' }]))
    expect(() => buildIndex({ input, output: input })).toThrow(
      /is no STIDX001 index: it is not overwritten without --force$/,
    )
    expect(readFileSync(input, 'utf8')).toBe('{"id":"a","title":"a"}\n')
    expect(() => buildIndex({ input, output: join(folder, 'no', 'x.stidx') })).toThrow(
      /there is no such folder$/,
    )
  })
})

describe('an output that is no file', () => {
  it('is refused and stays', async () => {
    const folder = temporaryFolder()
    const input = join(folder, 'notes.jsonl')
    writeFileSync(input, linesOf(sampleRecords(1)))
    const output = join(folder, 'socket')
    const server = createServer().listen(output)
    await once(server, 'listening')
    expect(() => buildIndex({ input, output })).toThrow(/is no regular file: it is not overwritten$/)
    expect(statSync(output).isSocket()).toBe(true)
    server.close()
  })
})

describe('an output that is a file, but no index', () => {
  it('is replaced by force alone; behind a link the file is replaced, and the link stays', () => {
    const folder = temporaryFolder()
    const input = join(folder, 'notes.jsonl')
    writeFileSync(input, linesOf(sampleRecords(1)))
    const foreign = join(folder, 'thesis.txt')
    writeFileSync(foreign, 'years of work')
    const output = join(folder, 'link')
    symlinkSync(foreign, output)
    expect(() => buildIndex({ input, output })).toThrow(/not overwritten without --force/)
    expect(readFileSync(foreign, 'utf8')).toBe('years of work')
    expect(buildIndex({ input, output, force: true }).records).toBe(1)
    expect(lstatSync(output).isSymbolicLink()).toBe(true)
    expect(readFileSync(foreign, 'latin1')).toMatch(/^STIDX001/)
    expect(() => buildIndex({ input, output: '/dev/null', force: true })).toThrow(/no regular file/)
  })
})

describe('a checksum', () => {
  it('is the CRC-32 of zlib', () => {
    for (const text of ['', 'a', '123456789', 'whale '.repeat(1000)]) {
      expect(crc32(Buffer.from(text))).toBe(builtIn(Buffer.from(text)))
      expect(crc32(text)).toBe(builtIn(text))
    }
    expect(crc32('123456789')).toBe(0xcbf43926)
  })
})
