/** Files that are no index, no whole one, or of another version are refused in one line and never believed. */

import { existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { crc32 } from '../src/checksum.ts'
import { placeMark } from '../src/format.ts'
import { openIndex } from '../src/index-file.ts'
import { checksumsOf, fuzzIndex } from './support/fuzz.ts'
import { buildFrom, sampleRecords } from './support/index.ts'
import { temporaryFolder } from './support/temporary.ts'

/** The header with other bytes at `at`, under a checksum that fits. */
function forged(bytes: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(bytes)
  copy.writeUInt16LE(value, at)
  copy.writeUInt32LE(crc32(copy.subarray(0, 508)), 508)
  return copy
}

describe('a file that cannot be used', () => {
  const { bytes } = (() => {
    let kept: Buffer | undefined
    return { bytes: () => (kept ??= buildFrom(sampleRecords(20)).bytes()) }
  })()
  const cases: [string, () => Buffer, RegExp][] = [
    ['an empty file', () => Buffer.alloc(0), /is no STIDX001 index$/],
    ['another kind of file', () => Buffer.from('{"id":"a"}\n'.repeat(100)), /is no STIDX001 index$/],
    ['the magic alone', () => Buffer.from('STIDX001'), /is no STIDX001 index$/],
    ['a newer layout', () => forged(bytes(), 8, 2), /has layout 2, newer than the 1 read here: index again$/],
    [
      'an older layout',
      () => forged(bytes(), 8, 0),
      /has layout 0, older than the 1 read here: index again$/,
    ],
    ['an unknown feature', () => forged(bytes(), 12, 5), /uses features that are not known here$/],
    [
      'another analyser',
      () => forged(bytes(), 104, 999),
      /was built by analyser .+ 999, not .+: index again$/,
    ],
    [
      'an index of before C++ and emoji were words',
      () => forged(bytes(), 104, 1),
      /was built by analyser flotilla-porter-light10 1, not flotilla-porter-light10 2: index again$/,
    ],
    ['an analyser with a name of two lines', () => forged(bytes(), 110, 0x0a0a), /is damaged \(header\)$/],
    ['a cut one', () => bytes().subarray(0, -1), /is damaged: \d+ bytes long where \d+ are due$/],
    ['a header cut off', () => bytes().subarray(0, 100), /is cut off$/],
    [
      'a flipped bit in the header',
      () => Buffer.concat([bytes().subarray(0, 30), Buffer.from([77]), bytes().subarray(31)]),
      /is damaged \(header\)$/,
    ],
  ]
  it.each(cases)('is refused: %s', (_name, content, message) => {
    const file = join(temporaryFolder(), 'index.stidx')
    writeFileSync(file, content())
    expect(() => openIndex(file)).toThrow(message)
  })

  it('is refused when it is a folder or is not there', () => {
    const folder = temporaryFolder()
    expect(() => openIndex(folder)).toThrow(/is no file$/)
    expect(() => openIndex(join(folder, 'none'))).toThrow(/cannot be read: there is no such file$/)
  })

  it.runIf(existsSync('/proc/self/mem'))('is refused when it opens but cannot be read', () => {
    expect(() => openIndex('/proc/self/mem')).toThrow(/^mem cannot be read: EIO$/)
  })

  it('is refused when it loses its end while it is open', () => {
    const { file, open } = buildFrom(sampleRecords(20))
    const index = open()
    truncateSync(file, 600)
    expect(() => index.get('rec-1')).toThrow(/was cut off while it was read$/)
  })

  it('is never believed: a thousand damages, the same long run as `npm run fuzz`', () => {
    const { file } = buildFrom(sampleRecords(150), { broadFrom: 200 })
    const before = readFileSync(file)
    const report = fuzzIndex(file, 1000, 20_260)
    expect(report.refused).toBeGreaterThan(500)
    expect(readFileSync(file).equals(before)).toBe(true)
  }, 240_000)
})

describe('an index of before, whose checksums say nothing of places', () => {
  it('is read as it was', () => {
    const { file, bytes, open } = buildFrom(sampleRecords(100))
    const truth = open().search('whale gateway').results
    const old = forged(bytes(), 12, 0)
    for (const { at, section, place } of checksumsOf(old)) {
      old.writeUInt32LE((old.readUInt32LE(at) ^ placeMark(section, place)) >>> 0, at)
    }
    expect(old.equals(bytes())).toBe(false)
    writeFileSync(file, old)
    expect(openIndex(file).search('whale gateway').results).toEqual(truth)
    expect(openIndex(file).get('rec-40')).toMatchObject({ id: 'rec-40' })
  })
})
