/** The check that keeps a damaged count of an Avro array or map from holding the process. */

import type avro from 'avsc'
import { expect, test } from 'vitest'
import { countCheckOf } from '#runtime/publish/block-counts.ts'
import { parseAvro } from '#runtime/publish/codec.ts'

/** Every kind of type, with maps and arrays in records, unions and each other. */
const fields = [
  { name: 'nothing', type: 'null' },
  { name: 'flag', type: 'boolean' },
  { name: 'small', type: 'int' },
  { name: 'large', type: { type: 'long', logicalType: 'timestamp-millis' } },
  { name: 'single', type: 'float' },
  { name: 'double', type: 'double' },
  { name: 'bytes', type: 'bytes' },
  { name: 'text', type: 'string' },
  { name: 'kind', type: { type: 'enum', name: 'Kind', symbols: ['a', 'b'] } },
  { name: 'hash', type: { type: 'fixed', name: 'Hash', size: 16 } },
  { name: 'lists', type: { type: 'array', items: { type: 'array', items: ['null', 'long'] } } },
  { name: 'maps', type: { type: 'map', values: { type: 'map', values: 'string' } } },
  { name: 'maybe', type: ['null', { type: 'array', items: 'string' }] },
]
const parsed = (more: object[]) =>
  parseAvro(JSON.stringify({ type: 'record', name: 'Everything', fields: [...fields, ...more] }))
const everything = parsed([{ name: 'next', type: ['null', 'Everything'] }])
/** The library's generator sometimes makes lists of thousands of such records, for which the stack is too small. */
const alone = parsed([])

function listOf(length: number): object | null {
  return length === 0 ? null : { ...alone.random(), next: listOf(length - 1) }
}

const list = parseAvro('{ "type": "array", "items": "string" }')
const huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x40]

function check(type: avro.Type, bytes: number[] | Buffer): void {
  countCheckOf(type)!(Buffer.from(bytes), 0)
}

test('values of any shape pass', () => {
  for (let n = 0; n < 200; n++) {
    const bytes = everything.toBuffer(listOf(1 + (n % 4)))
    expect(() => check(everything, bytes)).not.toThrow()
  }
})

test('types without maps and arrays need no check', () => {
  for (const text of ['"string"', '["null", "bytes"]', '{ "type": "fixed", "name": "F", "size": 4 }']) {
    expect(countCheckOf(parseAvro(text))).toBeUndefined()
  }
  const linked = '{ "type": "record", "name": "L", "fields": [{ "name": "next", "type": ["null", "L"] }] }'
  expect(countCheckOf(parseAvro(linked))).toBeUndefined()
})

test('blocks with their size in bytes pass when the size is right', () => {
  // Two entries of four bytes: the texts "a" and "b".
  expect(() => check(list, [3, 8, 2, 97, 2, 98, 0])).not.toThrow()
  expect(() => check(list, [3, 6, 2, 97, 2, 98, 0])).toThrow(/another size/)
  expect(() => check(list, [3, 1, 2, 97, 2, 98, 0])).toThrow(/another size/)
})

test.each([
  ['in an array', list, huge],
  ['negative', list, [0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 2]],
  ['in a map', parseAvro('{ "type": "map", "values": "long" }'), huge],
  ['in a union', parseAvro('["null", { "type": "array", "items": "long" }]'), [2, ...huge]],
  [
    'in an inner array',
    parseAvro('{ "type": "array", "items": { "type": "array", "items": "null" } }'),
    [2, ...huge],
  ],
])('a count beyond the end of the bytes is refused: %s', (_, type, bytes) => {
  expect(() => check(type, bytes)).toThrow(/more entries than it has bytes/)
})

test.each([
  ['a text', [2, 20, 97, 0], /cut short/],
  ['a text of negative length', [2, 1, 97, 0], /cut short/],
  ['the last, empty block', [2, 2, 97], /cut short/],
  ['a number', [2, 0x80], /cut short/],
  ['a number of any length', new Array<number>(2_000).fill(0xff).concat(0), /too long/],
])('damage is refused: %s', (_, bytes, reason) => {
  expect(() => check(list, bytes)).toThrow(reason)
})
