/**
 * Reads the vectors of an upsert from the bytes of its body: nearly all of a body is their numbers, and JSON.parse, which
 * makes an object of each, takes twice as long. What it does not know it leaves to JSON.parse.
 */

import { vectorDimension } from '#engines/vectors/collections.ts'

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const minus = 0x2d
const point = 0x2e
const zero = 0x30
const nine = 0x39
const openArray = 0x5b
const closeArray = 0x5d
const openObject = 0x7b
const closeObject = 0x7d
const key = Buffer.from('"vector"')
/** Root, list, point. */
const pointDepth = 3

interface VectorsAside {
  /** The body, where each vector of a point is replaced by its number, counted from 0. No JSON where the body is none. */
  rest: Buffer
  /** How many were replaced. None of them is looked at before it is written. */
  count: number
  /**
   * Writes the vector of this number into `target` at `to` and returns the sum of its squares: NaN where it is no list of numbers
   * with the right length.
   */
  write(number: number, target: Float32Array, to: number): number
}

/** Undefined for a body that has no vectors, or is unusual: JSON.parse reads it whole. */
export function setVectorsAside(body: Buffer): VectorsAside | undefined {
  if (!body.includes(key)) return undefined
  const begins: number[] = []
  const kept: Uint8Array[] = []
  let copied = 0
  let depth = 0
  for (let at = 0; at < body.length; at++) {
    const byte = body[at]!
    if (byte === openObject || byte === openArray) depth++
    else if (byte === closeObject || byte === closeArray) depth--
    if (byte !== quote) continue
    const begin = at
    at = endOfText(body, begin)
    if (depth !== pointDepth) continue
    const after = skipSpace(body, at + 1)
    if (body[after] !== colon) continue
    // It may be the same name, written with escapes.
    if (body.subarray(begin, at).includes(backslash)) return undefined
    if (!body.subarray(begin, at + 1).equals(key)) continue
    const open = skipSpace(body, after + 1)
    const close = body[open] === openArray ? body.indexOf(closeArray, open) : -1
    if (close < 0) return undefined
    kept.push(body.subarray(copied, open), Buffer.from(String(begins.length)))
    begins.push(open + 1)
    copied = close + 1
    at = close
  }
  const rest = Buffer.concat([...kept, body.subarray(copied)])
  return {
    rest,
    count: begins.length,
    write: (number, target, to) => readVector(body, begins[number]!, target, to),
  }
}

/** The place of its closing quote, or the end of the body. */
function endOfText(body: Uint8Array, begin: number): number {
  let at = begin + 1
  while (at < body.length && body[at] !== quote) at += body[at] === backslash ? 2 : 1
  return at
}

function skipSpace(body: Uint8Array, from: number): number {
  let at = from
  while (at < body.length && isSpace(body[at]!)) at++
  return at
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** Powers of ten that a double holds exactly. */
const powers = Float64Array.from({ length: 23 }, (_, n) => Number(`1e${n}`))
/** Below it, a double holds four digits more exactly. */
const digitsMax = 1e11
const jsonNumber = /^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?$/

/** As `write`. Components are the float32 of the numbers that JSON.parse would make. */
function readVector(body: Buffer, begin: number, target: Float32Array, to: number): number {
  const bytes = new DataView(body.buffer, body.byteOffset, body.length)
  const last = body.length - 4
  let squares = 0
  let at = begin
  for (let n = 0; n < vectorDimension; n++) {
    let byte = body[at]!
    while (isSpace(byte)) byte = body[++at]!
    const first = at
    const isNegative = byte === minus
    if (isNegative) byte = body[++at]!
    // Nearly all have one digit before the point.
    let isUsual = isDigit(byte)
    let digits = byte - zero
    let decimals = 0
    byte = body[++at]!
    if (byte === point) {
      const from = ++at
      while (digits < digitsMax && at <= last) {
        const four = fourDigits(bytes.getInt32(at))
        if (four < 0) break
        digits = digits * 10_000 + four
        at += 4
      }
      byte = body[at]!
      while (isDigit(byte) && digits < digitsMax) {
        digits = digits * 10 + byte - zero
        byte = body[++at]!
      }
      decimals = at - from
      isUsual &&= decimals > 0 && decimals < powers.length
    }
    // Both are exact, so the quotient is the double of JSON.parse.
    let value = digits / powers[decimals]!
    const isLonger = isDigit(byte)
    while (isDigit(byte)) byte = body[++at]!
    if (!isUsual || isExponent(byte) || (isLonger && !isSure(value, powers[decimals]!))) {
      at = endOfNumber(body, first)
      byte = body[at]!
      value = readNumber(body.toString('latin1', first, at))
    } else if (isNegative) value = -value
    const component = Math.fround(value)
    target[to + n] = component
    squares += component * component
    while (isSpace(byte)) byte = body[++at]!
    at++
    if (byte !== (n === vectorDimension - 1 ? closeArray : comma)) return Number.NaN
  }
  return squares
}

/** NaN for a text that is no number in JSON. */
function readNumber(text: string): number {
  return jsonNumber.test(text) ? Number(text) : Number.NaN
}

function endOfNumber(body: Uint8Array, begin: number): number {
  let at = begin
  while (at < body.length && body[at] !== comma && body[at] !== closeArray && !isSpace(body[at]!)) at++
  return at
}

/** The number that four bytes write, the first in the highest; below 0 where they are not all digits. */
function fourDigits(ascii: number): number {
  const four = ascii ^ 0x30303030
  if (((four | (four + 0x06060606)) & 0xf0f0f0f0) !== 0) return -1
  const pairs = Math.imul(four >>> 8, 10) + four
  return ((pairs >>> 16) & 0xff) * 100 + (pairs & 0xff)
}

/** Whether all numbers from `value` to the next one with as many decimals are the same float32. */
function isSure(value: number, power: number): boolean {
  const left = value * 4e-16 + 1 / power
  return Math.fround(value - left) === Math.fround(value + left)
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= nine
}

function isExponent(byte: number): boolean {
  return byte === 0x65 || byte === 0x45
}
