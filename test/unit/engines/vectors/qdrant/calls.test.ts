import { describe, expect, test } from 'vitest'
import { encodeBody } from '#engines/vectors/qdrant/calls.ts'

/** What a reader of JSON makes of a vector, as float32. */
function readBack(vector: Float32Array): Float32Array {
  return Float32Array.from(JSON.parse(encodeBody([vector]).toString()) as number[])
}

/** Float32 values next to each other, from the bits of the first one on. */
function neighbours(first: number, count: number): Float32Array {
  const bits = new Uint32Array(new Float32Array([first]).buffer)[0]!
  return new Float32Array(Uint32Array.from({ length: count }, (_, n) => bits + n).buffer)
}

describe('bodies with vectors', () => {
  test('text and vectors are joined in their order', () => {
    const body = encodeBody(['{"name":"é😀","vector":', Float32Array.of(0.5, -2, 0), ',"more":1}'])
    expect(JSON.parse(body.toString())).toEqual({ name: 'é😀', vector: [0.5, -2, 0], more: 1 })
    expect(encodeBody(['[', new Float32Array(0), ']']).toString()).toBe('[[]]')
  })

  test('every float32 comes back as it was, however small, large or close to another', () => {
    const kinds = [
      Float32Array.of(1, -1, 0.1, -0.1, 1 / 3, 1e-3, 123.456, 1e20, -1e-20),
      Float32Array.of(3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45),
      ...Array.from({ length: 40 }, (_, n) => neighbours(2 ** (n - 35), 2_000)),
      ...Array.from({ length: 40 }, (_, n) => neighbours(2 ** (n - 35) * 0.999_95, 2_000)),
    ]
    for (const vector of kinds) {
      expect(readBack(vector)).toEqual(vector)
      expect(readBack(vector.map((value) => -value))).toEqual(vector.map((value) => -value))
    }
  })

  test('components of embeddings take fifteen bytes, and not the digits of a double', () => {
    const vector = Float32Array.from({ length: 1_536 }, (_, n) => Math.sin(n + 1) / 20)
    expect(encodeBody([vector]).length).toBeLessThanOrEqual(16 * vector.length + 2)
  })
})
