/** Small requests leave in one piece, with every byte in its place, however slowly a receiver reads. */

import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { joinWrites } from '#services/webhooks/courier/joined-writes.ts'

/** A socket whose writes are joined, what they came in as, and what its peer has received once it ended. */
async function pair() {
  let peer: Socket | undefined
  const server = createServer((socket) => {
    socket.pause()
    peer = socket
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => {
    socket.destroy()
    server.close()
  })
  await new Promise((resolve) => socket.once('connect', resolve))
  const sizes: number[] = []
  const write = socket._write.bind(socket)
  socket._write = (chunk, encoding, done) => {
    sizes.push(chunk.length)
    write(chunk, encoding, done)
  }
  joinWrites(socket)
  return { socket, sizes, received: () => buffer(peer!) }
}

function send(socket: Socket, head: string, body: Buffer, encoding: BufferEncoding = 'latin1'): void {
  socket.cork()
  socket.write(head, encoding)
  socket.write(body)
  socket.uncork()
}

describe('joined writes', () => {
  test('head and body are one write; what is large or needs encoding goes out as it is', async () => {
    const { socket, sizes, received } = await pair()
    const large = Buffer.alloc(20_000, 'L')
    send(socket, 'POST é\r\n\r\n', Buffer.from('{"n":1}'))
    expect(sizes).toEqual([17])
    send(socket, 'large', large)
    send(socket, 'snowman ☃', Buffer.from('!'), 'utf8')
    expect(sizes).toHaveLength(1)
    socket.end()
    expect(await received()).toEqual(
      Buffer.concat([Buffer.from('POST é\r\n\r\n{"n":1}large', 'latin1'), large, Buffer.from('snowman ☃!')]),
    )
  })

  test('a write that has to wait keeps its bytes while others are sent', async () => {
    const pairs = await Promise.all([pair(), pair(), pair()])
    const sent = pairs.map(() => '')
    // Nobody reads: soon the kernel takes no more of one after the other.
    for (let n = 0; n < 2_000; n++) {
      for (const [i, { socket }] of pairs.entries()) {
        const [head, body] = [`${i}:${n};`, String(i).repeat(3_000 + (n % 7))]
        sent[i] += head + body
        send(socket, head, Buffer.from(body))
      }
    }
    expect(pairs.some(({ socket }) => socket.writableLength > 0)).toBe(true)
    for (const { socket } of pairs) socket.end()
    const received = await Promise.all(pairs.map((one) => one.received()))
    for (const [i, bytes] of received.entries()) expect(bytes.equals(Buffer.from(sent[i]!))).toBe(true)
  })
})
