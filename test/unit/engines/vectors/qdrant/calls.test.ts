import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { encodeBody, openCalls } from '#engines/vectors/qdrant/calls.ts'

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

describe('the log', () => {
  test('names a Qdrant that is away with its setting, at first and at each doubling, and that it is back', async () => {
    let status = 503
    const server = createServer((_, answer) => answer.writeHead(status).end('{"result":true}'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const lines: Record<string, unknown>[] = []
    const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const calls = openCalls({ url, apiKey: 'sk-secret' }, log)
    onTestFinished(() => calls.close())
    const call = () => calls.within(5_000)('search', 'GET', '/')
    for (let n = 0; n < 9; n++) {
      await expect(call()).rejects.toMatchObject({ code: 'vector_engine_unavailable' })
    }
    status = 422
    await expect(call()).rejects.toMatchObject({ code: 'validation_failed' })
    status = 200
    await expect(call()).resolves.toBe(true)
    expect(lines.map(({ msg, tries }) => [msg, tries])).toEqual([
      ...[1, 2, 4, 8].map((tries) => ['vectors.qdrant-failed', tries]),
      ['vectors.qdrant-refused', undefined],
      ['vectors.qdrant-answers', 9],
    ])
    expect(lines[0]).toMatchObject({
      call: 'search',
      status: 503,
      hint: expect.stringContaining('QDRANT_URL'),
    })
    expect(JSON.stringify(lines)).not.toContain('sk-secret')
  })
})
