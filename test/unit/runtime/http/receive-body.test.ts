/** Bodies are received whole, within their limit and in memory of their own. */

import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { joinBlocks, receiveBody } from '#runtime/http/receive-body.ts'

const mebibyte = 2 ** 20

function stream(headers: Record<string, string>): PassThrough & IncomingMessage {
  return Object.assign(new PassThrough(), { headers }) as PassThrough & IncomingMessage
}

describe('a body', () => {
  test('of announced length comes whole, in memory that is its own', async () => {
    const request = stream({ 'content-length': '6' })
    const body = receiveBody(request, 10)
    for (const piece of ['ab', 'cd', 'ef']) request.write(piece)
    request.end()
    const whole = joinBlocks(await body)
    expect(whole.toString()).toBe('abcdef')
    expect(whole.buffer.byteLength).toBe(6)
  })

  test('takes no memory twice: that of a piece is given back as soon as it is in its place', async () => {
    const request = stream({ 'content-length': '20000' })
    const body = receiveBody(request, 20_000)
    const pieces = [Buffer.alloc(10_000, 1), Buffer.alloc(10_000, 2)]
    for (const piece of pieces) request.write(piece)
    request.end()
    const blocks = await body
    expect(pieces.map((piece) => piece.length)).toEqual([0, 0])
    expect(joinBlocks(blocks).subarray(9_999, 10_001)).toEqual(Buffer.from([1, 2]))
  })

  test('keeps large pieces as they came, between small ones that are copied, and joins all in their order', async () => {
    const request = stream({})
    const body = receiveBody(request, mebibyte)
    const large = [Buffer.alloc(20_000, 2), Buffer.alloc(30_000, 4)]
    const [shared] = [Buffer.alloc(50_000, 3).subarray(10_000)]
    for (const piece of [large[0]!, Buffer.from([1, 1]), shared!, large[1]!, Buffer.from([5])])
      request.write(piece)
    request.end()
    const blocks = await body
    expect(blocks[0]).toBe(large[0])
    const whole = joinBlocks(blocks)
    expect(whole).toHaveLength(90_003)
    expect([0, 20_000, 20_002, 60_002, 90_002].map((at) => whole[at])).toEqual([2, 1, 3, 4, 5])
    expect(large.map((piece) => piece.length)).toEqual([0, 0])
  })

  test('is joined in the room that is given for it, where it is shorter than that, which others may use after it', () => {
    const room = new ArrayBuffer(8)
    const blocks = (...bytes: number[]) => bytes.map((byte) => new Uint8Array([byte, byte]))
    const short = joinBlocks(blocks(1, 2, 3), room)
    expect([...short]).toEqual([1, 1, 2, 2, 3, 3])
    expect(short.buffer).toBe(room)
    const long = joinBlocks(blocks(4, 5, 6, 7), room)
    expect([...long]).toEqual([4, 4, 5, 5, 6, 6, 7, 7])
    expect(long.buffer).not.toBe(room)
    expect([...short]).toEqual([1, 1, 2, 2, 3, 3])
  })

  test('takes memory for received bytes, and never for announced ones', async () => {
    const taken: number[] = []
    class Counted extends ArrayBuffer {
      constructor(bytes: number) {
        super(bytes)
        taken.push(bytes)
      }
    }
    vi.stubGlobal('ArrayBuffer', Counted)
    onTestFinished(() => void vi.unstubAllGlobals())
    const sum = () => taken.reduce((all, bytes) => all + bytes, 0)
    const announced = 64 * mebibyte
    const request = stream({ 'content-length': String(announced) })
    const body = receiveBody(request, announced)
    expect(taken).toEqual([])
    let sent = 0
    for (const bytes of [1, 1, 20_000, 500_000, 3 * mebibyte, 1, 10 * mebibyte]) {
      request.write(Buffer.alloc(bytes, 7))
      sent += bytes
      await new Promise((resolve) => setImmediate(resolve))
      expect(sum()).toBeLessThanOrEqual(Math.min(2 * sent, sent + mebibyte) + 16 * 1024)
    }
    request.destroy()
    await expect(body).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('of many pieces comes as it was sent, with and without its length', async () => {
    const sent = Buffer.from(Array.from({ length: 300_000 }, (_, n) => n % 251))
    for (const headers of [{ 'content-length': '300000' }, {}] as Record<string, string>[]) {
      const request = stream(headers)
      const body = receiveBody(request, 300_000)
      for (let at = 0, size = 1; at < sent.length; at += size, size = (size * 7) % 40_000 || 1) {
        request.write(Buffer.from(sent.subarray(at, at + size)))
      }
      request.end()
      const whole = joinBlocks(await body)
      expect(sent.equals(whole)).toBe(true)
      expect(whole.buffer.byteLength).toBe(300_000)
    }
  })

  test('for which there is no memory is refused for now', async () => {
    const request = stream({ 'content-length': '6' })
    const body = receiveBody(request, 10)
    class Full extends ArrayBuffer {
      constructor(bytes: number) {
        super(0)
        throw new RangeError(`Array buffer allocation failed: ${bytes}`)
      }
    }
    vi.stubGlobal('ArrayBuffer', Full)
    onTestFinished(() => void vi.unstubAllGlobals())
    request.end('abcdef')
    await expect(body).rejects.toMatchObject({ code: 'overloaded', statusCode: 503, retryAfter: 1 })
  })

  test('of unknown length comes whole up to the limit', async () => {
    const request = stream({})
    const body = receiveBody(request, 4)
    request.end('abcd')
    expect(joinBlocks(await body).toString()).toBe('abcd')
    const long = stream({})
    const refused = receiveBody(long, 4)
    long.end('abcde')
    await expect(refused).rejects.toMatchObject({ code: 'payload_too_large' })
  })

  test('that announces too much is refused before it is read', async () => {
    await expect(receiveBody(stream({ 'content-length': '11' }), 10)).rejects.toMatchObject({
      code: 'payload_too_large',
    })
  })

  test('that arrives too slowly is 408, and one that keeps the pace is taken', async () => {
    vi.useFakeTimers()
    try {
      const body = (request: ReturnType<typeof stream>) =>
        receiveBody(request, 100_000).catch((error: AppError) => error.statusCode)
      const [slow, steady] = [stream({ 'content-length': '80000' }), stream({ 'content-length': '80000' })]
      const [refused, taken] = [body(slow), body(steady)]
      slow.write(Buffer.alloc(20_000))
      for (let n = 0; n < 4; n++) {
        steady.write(Buffer.alloc(20_000))
        if (n === 1) slow.write('x')
        await vi.advanceTimersByTimeAsync(5_000)
      }
      steady.end()
      await vi.advanceTimersByTimeAsync(1)
      expect(await refused).toBe(408)
      expect(joinBlocks((await taken) as Buffer[])).toHaveLength(80_000)
    } finally {
      vi.useRealTimers()
    }
  })

  test('whose bytes are refused as they arrive is not read further', async () => {
    const request = stream({ 'content-length': '6' })
    let seen = 0
    const body = receiveBody(request, 10, (bytes) => {
      seen += bytes
      if (seen > 2) throw new AppError('overloaded', 'Too much.')
    })
    for (const piece of ['ab', 'cd', 'ef']) request.write(piece)
    await expect(body).rejects.toMatchObject({ code: 'overloaded' })
    expect(seen).toBe(4)
  })

  test('that is cut short is refused', async () => {
    const ended = stream({ 'content-length': '6' })
    const body = receiveBody(ended, 10)
    ended.end('abc')
    await expect(body).rejects.toMatchObject({ code: 'bad_request' })
    const broken = stream({ 'content-length': '6' })
    const other = receiveBody(broken, 10)
    broken.destroy(new Error('reset'))
    await expect(other).rejects.toMatchObject({ code: 'bad_request' })
  })
})
