/** Sockets that read through one buffer: each gets its own bytes, all of them, also one that pauses. */

import { type AddressInfo, connect, createServer } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { sharedReads } from '#services/webhooks/courier/shared-reads.ts'

test('many that read at once keep their bytes apart, however late they are looked at', async () => {
  const size = 300_000
  let next = 0
  const server = createServer((socket) => {
    const n = next++
    for (let at = 0; at < size; at += 10_000) socket.write(Buffer.alloc(10_000, n))
    socket.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const sockets = Array.from({ length: 12 }, () => connect({ port, host: '127.0.0.1', onread: sharedReads }))
  // Some stand still while the others go on.
  for (const socket of sockets.slice(0, 6)) {
    socket.on('readable', () => {})
    await new Promise((resolve) => setTimeout(resolve, 5))
    socket.removeAllListeners('readable')
  }
  const received = await Promise.all(sockets.map((socket) => buffer(socket)))
  const firsts = received.map((bytes) => bytes[0]!)
  expect(firsts.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 12 }, (_, n) => n))
  for (const bytes of received) expect(bytes.equals(Buffer.alloc(size, bytes[0]!))).toBe(true)
})
