/** Vectors that are read from the bytes of a body: the same numbers, and the same refusals, as by JSON.parse. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { parseUpsert } from '#services/vectors/accept/upsert.ts'
import { setVectorsAside } from '#services/vectors/accept/vectors-aside.ts'
import { axisVector } from '../../../../support/points.ts'

const dimension = 1536
const vector = JSON.stringify(axisVector(1))

/** A list in which these texts come again and again. */
function listOf(numbers: readonly string[], separator = ','): string {
  return `[${Array.from({ length: dimension }, (_, n) => numbers[n % numbers.length]).join(separator)}]`
}

/** Components of the first vector as they are read, and the sum of its squares. */
function read(list: string) {
  const aside = setVectorsAside(Buffer.from(`{"points":[{"id":"a","vector":${list}}]}`))!
  const target = new Float32Array(dimension + 1)
  return { squares: aside.write(0, target, 1), components: target.subarray(1), rest: aside.rest.toString() }
}

/** Decimals between two neighbours of float32, where one digit more or less decides. */
const floats = fc.oneof(
  fc.float({ noNaN: true, min: Math.fround(1e-20), max: 1 }),
  fc.integer({ min: 2 ** 20, max: 2 ** 24 }).map((bits) => bits / 2 ** 24),
)
const halfway = floats.map((float) => {
  const bits = new Uint32Array(Float32Array.of(float).buffer)[0]! + 1
  const above = new Float32Array(Uint32Array.of(bits).buffer)[0]!
  return (float + above) / 2
})
const numberText = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
  fc.double({ noNaN: true, min: -1, max: 1 }).map((number) => number.toFixed(8)),
  fc.double({ noNaN: true, min: -2, max: 2 }).map((number) => number.toFixed(22)),
  fc.float({ noNaN: true, min: -1, max: 1 }).map((number) => JSON.stringify(number)),
  fc.tuple(halfway, fc.constantFrom('', '0', '1', '9', '00000000000000000001')).map(([number, more]) => {
    const text = number.toFixed(40).replace(/0+$/, '')
    return text.endsWith('.') ? `${text}0${more}` : `${text}${more}`
  }),
  fc.tuple(halfway, fc.integer({ min: 12, max: 25 })).map(([number, digits]) => number.toFixed(digits)),
  fc.stringMatching(/^-?(0|[1-9][0-9]{0,17})([.][0-9]{1,25})?([eE][+-]?[0-9]{1,3})?$/),
  fc.constantFrom(
    '0',
    '-0',
    '0.0',
    '1',
    '7',
    '12',
    '-1.5e-5',
    '1E3',
    '0.000000000000000000000000000001',
    '1e-400',
  ),
)

test('any number of JSON becomes the float32 that JSON.parse makes', () => {
  fc.assert(
    fc.property(fc.array(numberText, { minLength: 1, maxLength: 64 }), (numbers) => {
      const list = listOf(numbers)
      const wanted = Float32Array.from(JSON.parse(list) as number[])
      const { components, squares } = read(list)
      expect(new Uint32Array(components.slice().buffer)).toEqual(new Uint32Array(wanted.buffer))
      expect(squares).toBe(wanted.reduce((sum, component) => sum + component * component, 0))
    }),
    { numRuns: 300 },
  )
})

test.each([
  '01',
  '-',
  '1.',
  '.5',
  '+1',
  '1e',
  '1e+',
  '0x1',
  '1_0',
  'NaN',
  '-.5',
  ':.5',
  '1.e5',
  '١',
  '"1"',
  'null',
  '',
  '1 2',
  '--1',
  '1.2.3',
  '0.12345678x',
])('%j is no number', (text) => {
  expect(read(listOf(['0.5', text])).squares).toBeNaN()
  expect(read(listOf(['0.5', '0.25'].concat(new Array(1533).fill('0.5'), text))).squares).toBeNaN()
})

test('space may come where JSON allows it', () => {
  const { squares, rest } = read(listOf([' \n0.5', '\t-0.25\r'], ' ,\n'))
  expect(squares).toBe((dimension / 2) * (0.25 + 0.0625))
  expect(rest).toBe('{"points":[{"id":"a","vector":0}]}')
})

test('a list that is too short or too long is none', () => {
  for (const length of [0, 1, dimension - 1, dimension + 1]) {
    expect(read(`[${new Array(length).fill('0.5').join()}]`).squares).toBeNaN()
  }
})

/** Bodies in which the vectors are not where, or what, they seem. */
const odd = {
  'a vector in a payload': `{"id":"a","vector":${vector},"payload":{"vector":${vector},"x":[{"vector":[1]}]}}`,
  'a number in place of the vector, and a vector in the payload': `{"id":"a","vector":0,"payload":{"vector":${vector}}}`,
  'the name of the vector with escapes': `{"id":"a","vec\\u0074or":${vector}}`,
  'a number under a name with escapes': `{"id":"a","vec\\u0074or":0},{"id":"b","vector":${vector}}`,
  'a vector, and then a number under a name with escapes': `{"id":"a","vector":${vector},"vec\\u0074or":0}`,
  'two vectors, of which the first is garbage': `{"id":"a","vector":[garbage],"vector":${vector}}`,
  'two vectors, of which the last is garbage': `{"id":"a","vector":${vector},"vector":[garbage]}`,
  'two good vectors': `{"id":"a","vector":${listOf(['1'])},"vector":${vector}}`,
  'the word as text': `{"id":"\\"vector\\":[1]","vector":${vector},"payload":{"t":"\\\\\\"vector\\": [1]"}}`,
  'the word as id': `{"id":"vector","vector":${vector}}`,
  'a list of lists': `{"id":"a","vector":[${vector}]}`,
  'brackets in texts': `{"payload":{"t":"}]}{[\\"{"},"id":"a","vector":${vector}}`,
  'a text among vectors': `{"id":"a","text":"x"},{"id":"b","vector":${vector}},{"id":"c","text":"\\"vector\\""}`,
  'an id that comes twice': `{"id":"a","vector":${listOf(['1'])}},{"id":"a","vector":${vector}}`,
  'an unknown name': `{"id":"a","vector":${vector},"vectors":${vector}}`,
  'a text without end': `{"id":"a","vector":${vector},"payload":{"t":"`,
  'a list without end': `{"id":"a","vector":[1,2,3`,
  'no UTF-8 inside the vector': `{"id":"a","vector":[\xff${vector.slice(1)}}`,
  'no UTF-8 in the payload': `{"id":"a","vector":${vector},"payload":{"t":"\xff"}}`,
  'UTF-8 in the payload': `{"id":"a","vector":${vector},"payload":{"t":"\xc3\xa9"}}`,
  'points twice': `{"id":"a","vector":[garbage]}],"points":[{"id":"a","vector":${vector}}`,
}

test.each(Object.entries(odd))('%s: as JSON.parse has it', (_what, points) => {
  const body = Buffer.from(`{"collection":"posts","points":[${points}]}`, 'latin1')
  expect(outcome(body)).toEqual(outcome(slowed(body)))
})

test('any body of points is read as by JSON.parse', () => {
  const list = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.array(numberText, { minLength: 1, maxLength: 5 }).map((numbers) => listOf(numbers)),
    },
    { weight: 1, arbitrary: fc.constantFrom('[1]', '[]', 'null', '"x"', '7', listOf(['1', 'x'])) },
  )
  const point = fc.record({
    id: fc.constantFrom('a', 'b', 'vector', '"', '\\'),
    list,
    payload: fc.jsonValue(),
  })
  fc.assert(
    fc.property(fc.array(point, { minLength: 1, maxLength: 4 }), (points) => {
      const texts = points.map(
        ({ id, list, payload }) =>
          `{"id":${JSON.stringify(id)}, "payload":{"p":${JSON.stringify(payload)}} ,"vector" : ${list}}`,
      )
      const body = Buffer.from(`{"collection":"posts","points":[${texts.join(',')}]}`)
      expect(outcome(body)).toEqual(outcome(slowed(body)))
    }),
    { numRuns: 100 },
  )
})

/** The same value, with the names written so that nothing is set aside. */
function slowed(body: Buffer): Buffer {
  return Buffer.from(body.toString('latin1').replaceAll('"vector"', '"\\u0076ector"'), 'latin1')
}

function outcome(body: Buffer) {
  try {
    const { vectors, ...parsed } = parseUpsert(body)
    return { ...parsed, vectors: [...new Float32Array(vectors)] }
  } catch (error) {
    const { code, errors } = error as AppError
    expect(error).toBeInstanceOf(AppError)
    return { code, errors }
  }
}
