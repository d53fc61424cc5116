/** The fixed numbers of the format STIDX001, and its header: written, read and checked. */

import { crc32 } from './checksum.ts'
import type { TextField } from './contract.ts'
import { badIndex } from './fault.ts'

export const magic = 'STIDX001'
/** The version of everything behind the magic; a reader accepts this version only. */
export const layoutVersion = 1
export const headerBytes = 512
/** Features that a reader must know. 1: every checksum is mixed with the place of what it covers (`placeMark`). */
const placesFeature = 1
/** 2: terms in few records that hold much text have positions, too, and their entries say where. */
const shortPositionsFeature = 2
/** Features that a reader may ignore, one bit each. 1: terms have positions; long posting lists are followed by them. */
const positionsFeature = 1
/** 2: broad beginnings have lists of their own, in two more sections. */
const beginningsFeature = 2

/** In the order of their bits in a posting: title 1, slug 2, path 4, body 8. */
export const textFields: readonly TextField[] = ['title', 'slug', 'path', 'body']
/** The specification's weights, shown as `field_score`. */
export const literalWeights: readonly number[] = [60, 40, 35, 15]
/** The same ratios for BM25F, in hundredths. */
export const scoringWeights: readonly number[] = [400, 267, 233, 100]
/** Hundredths. Weights of 4 in a title raise frequencies, so k1 is above the 1.2 of texts without fields. */
export const k1Hundredths = 300
export const bHundredths = 75
/**
 * How much of the length that counts is the field's own; the rest is that of the whole record, so that one without a
 * body, which holds fewer of a question's words, is not set back. Hundredths.
 */
export const ownLengthHundredths = 80
/** An impact of 255 means the limit of the term-frequency part; weights of terms are idf in 1/1024. */
export const impactMax = 255
export const termWeightUnit = 1024

/** Record numbers have 24 bits. */
export const recordsMax = 2 ** 24
export const postingsPerBlock = 128
export const skipEntryBytes = 9
/** Before the positions of a term: u32 bytes, u32 CRC-32. */
export const positionsHeadBytes = 8
export const treePageBytes = 2048
export const treePageHeadBytes = 8
/** Lists up to this length are kept in the page of their term. */
export const inlineBytesMax = 64
export const termBytesMax = 255
/** Numbers of records a page of the offset table covers, and the bytes of one entry. */
export const offsetsPerPage = 64
export const offsetBytes = 6
export const offsetPageBytes = offsetsPerPage * offsetBytes + 4
/** Pairs of 8 bytes in a page of a hash table. */
export const pairsPerPage = 63
export const pairPageBytes = pairsPerPage * 8 + 8
export const recordHeadBytes = 16
export const noBody = 0xffffffff

/** First characters of the terms that no text holds. */
export const valuePrefix = '\u0001'
export const surfacePrefix = '\u0002'
/** Between the field and its value. */
export const valueSeparator = '\u0000'
/** Longer values of fields are not indexed. */
export const valueBytesMax = 200

/** The kinds of keys in the hash table: the byte before the key. */
export const keyKinds = { id: 'i', slug: 's', title: 't' } as const
export type KeyKind = keyof typeof keyKinds

/** In the order of the section table. */
const sectionNames = [
  'records',
  'offsets',
  'keys',
  'tree',
  'postings',
  'deletions',
  'joined',
  'beginnings',
] as const
/** Every file has these; the others come with the feature of beginnings. */
const sectionsMin = 6
export type SectionName = (typeof sectionNames)[number]
/** Sections whose parts carry their own checksums. */
export type PlacedSection = Exclude<SectionName, 'joined'>
const sectionsAt = 160
const sectionBytes = 32

/**
 * What the checksum of a page or record is mixed with (XOR): a sound one that lies where another belongs, as after a
 * write to a wrong place, would be taken for that one. `place`: number of the page, else bytes from the section's start.
 */
export function placeMark(section: PlacedSection, place: number): number {
  return Math.imul(place * sectionNames.length + sectionNames.indexOf(section), 0x9e3779b1) >>> 0
}

export interface Section {
  offset: number
  length: number
  /** Entries, pages or records; which, is said where it is used. */
  count: number
  /** Number of the root page of the tree; else 0. */
  root: number
}

/** The place of a section that the file does not have. */
export const noSection: Section = { offset: headerBytes, length: 0, count: 0, root: 0 }

export interface Header {
  fileBytes: number
  records: number
  terms: number
  surfaces: number
  postings: number
  /** Sums over all records of the number of words in each field. */
  fieldWords: number[]
  /** The k1 of its impacts, in hundredths. */
  k1Hundredths: number
  /** Whether positions follow the posting lists of more than one block. */
  hasPositions: boolean
  /** Whether its checksums are mixed with places; files of before are not. */
  hasPlaces: boolean
  /** Whether a posting list of one block has positions. */
  hasShortPositions: boolean
  analyzer: { id: string; version: number }
  sections: Record<SectionName, Section>
}

export function encodeHeader(header: Omit<Header, 'hasPositions' | 'hasPlaces'>): Buffer {
  const bytes = Buffer.alloc(headerBytes)
  bytes.write(magic, 0, 'latin1')
  bytes.writeUInt16LE(layoutVersion, 8)
  bytes.writeUInt16LE(headerBytes, 10)
  bytes.writeUInt32LE(placesFeature | (header.hasShortPositions ? shortPositionsFeature : 0), 12)
  const present = header.sections.beginnings.count > 0 ? sectionNames : sectionNames.slice(0, sectionsMin)
  bytes.writeUInt32LE(positionsFeature | (present === sectionNames ? beginningsFeature : 0), 16)
  bytes.writeUInt32LE(sectionsMin, 20)
  writeU64(bytes, header.fileBytes, 24)
  bytes.writeUInt32LE(header.records, 32)
  bytes.writeUInt32LE(header.terms, 36)
  writeU64(bytes, header.postings, 40)
  bytes.writeUInt32LE(header.surfaces, 48)
  header.fieldWords.forEach((words, i) => {
    writeU64(bytes, words, 56 + i * 8)
  })
  const numbers = [...scoringWeights, header.k1Hundredths, bHundredths, impactMax, termWeightUnit]
  numbers.forEach((number, i) => {
    bytes.writeUInt16LE(number, 88 + i * 2)
  })
  bytes.writeUInt16LE(header.analyzer.version, 104)
  bytes.writeUInt8(Buffer.byteLength(header.analyzer.id), 106)
  bytes.write(header.analyzer.id, 107, 'latin1')
  present.forEach((name, i) => {
    const at = sectionsAt + i * sectionBytes
    const section = header.sections[name]
    bytes.writeUInt16LE(i + 1, at)
    bytes.writeUInt16LE(1, at + 2)
    bytes.writeUInt32LE(section.count, at + 4)
    writeU64(bytes, section.offset, at + 8)
    writeU64(bytes, section.length, at + 16)
    bytes.writeUInt32LE(section.root, at + 24)
  })
  bytes.writeUInt32LE(crc32(bytes.subarray(0, headerBytes - 4)), headerBytes - 4)
  return bytes
}

/** @throws SearchFault that says in one line why the file cannot be read. */
export function decodeHeader(bytes: Buffer, fileBytes: number): Header {
  if (bytes.length < 12 || bytes.toString('latin1', 0, 8) !== magic) {
    throw badIndex('is no STIDX001 index')
  }
  const version = bytes.readUInt16LE(8)
  if (version !== layoutVersion) {
    const age = version > layoutVersion ? 'newer' : 'older'
    throw badIndex(`has layout ${version}, ${age} than the ${layoutVersion} read here: index again`)
  }
  if (bytes.length < headerBytes || bytes.readUInt16LE(10) !== headerBytes) throw badIndex('is cut off')
  if (bytes.readUInt32LE(headerBytes - 4) !== crc32(bytes.subarray(0, headerBytes - 4))) {
    throw badIndex('is damaged (header)')
  }
  if (bytes.readUInt32LE(12) & ~(placesFeature | shortPositionsFeature)) {
    throw badIndex('uses features that are not known here')
  }
  const header = readFields(bytes)
  if (header.fileBytes !== fileBytes) {
    throw badIndex(`is damaged: ${fileBytes} bytes long where ${header.fileBytes} are due`)
  }
  checkSections(header)
  return header
}

function readFields(bytes: Buffer): Header {
  const idEnd = 107 + bytes.readUInt8(106)
  const areUnitsKnown = bytes.readUInt16LE(100) === impactMax && bytes.readUInt16LE(102) === termWeightUnit
  if (bytes.readUInt32LE(20) !== sectionsMin || idEnd > sectionsAt || !areUnitsKnown) {
    throw badIndex('is damaged (header)')
  }
  const id = bytes.toString('latin1', 107, idEnd)
  // It is shown where it is not ours: it must be one line and no more.
  if (!/^[\x21-\x7e]+$/.test(id)) throw badIndex('is damaged (header)')
  const features = bytes.readUInt32LE(16)
  const present = features & beginningsFeature ? sectionNames : sectionNames.slice(0, sectionsMin)
  const sections = { joined: noSection, beginnings: noSection } as Record<SectionName, Section>
  present.forEach((name, i) => {
    const at = sectionsAt + i * sectionBytes
    if (bytes.readUInt16LE(at) !== i + 1 || bytes.readUInt16LE(at + 2) !== 1) {
      throw badIndex('holds a section that is not known here')
    }
    sections[name] = {
      count: bytes.readUInt32LE(at + 4),
      offset: readU64(bytes, at + 8),
      length: readU64(bytes, at + 16),
      root: bytes.readUInt32LE(at + 24),
    }
  })
  return {
    fileBytes: readU64(bytes, 24),
    records: bytes.readUInt32LE(32),
    terms: bytes.readUInt32LE(36),
    postings: readU64(bytes, 40),
    surfaces: bytes.readUInt32LE(48),
    fieldWords: textFields.map((_, i) => readU64(bytes, 56 + i * 8)),
    k1Hundredths: bytes.readUInt16LE(96),
    hasPositions: (features & positionsFeature) !== 0,
    hasPlaces: (bytes.readUInt32LE(12) & placesFeature) !== 0,
    hasShortPositions: (bytes.readUInt32LE(12) & shortPositionsFeature) !== 0,
    analyzer: { version: bytes.readUInt16LE(104), id },
    sections,
  }
}

function checkSections({ sections, records, fileBytes }: Header): void {
  const { offsets, keys, tree, deletions, beginnings } = sections
  const sound =
    records <= recordsMax &&
    Object.values(sections).every(
      ({ offset, length }) => offset >= headerBytes && offset + length <= fileBytes,
    ) &&
    offsets.length === Math.ceil(records / offsetsPerPage) * offsetPageBytes &&
    [keys, deletions].every(
      ({ count, length }) => length === Math.ceil(count / pairsPerPage) * pairPageBytes,
    ) &&
    [tree, beginnings].every(
      ({ count, length, root }) => length === count * treePageBytes && (count === 0 || root < count),
    )
  if (!sound) throw badIndex('is damaged (sections)')
}

function writeU64(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32LE(value % 2 ** 32, at)
  bytes.writeUInt32LE(Math.floor(value / 2 ** 32), at + 4)
}

/** Numbers above 2^53 lose digits, and then fail every check against the length of the file. */
function readU64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32
}
