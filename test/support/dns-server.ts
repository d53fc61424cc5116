/** A DNS server on the loopback that answers as a test says: addresses, no such name, or nothing at all. */

import { createSocket } from 'node:dgram'
import type { AddressInfo } from 'node:net'
import { isIPv4 } from 'node:net'

export interface DnsServer {
  /** `address:port`. */
  address: string
  /** Names that were asked for, in order, once for each kind of address. */
  asked: string[]
  /** Addresses of a name (TTL 1 s), null for no such name, undefined for no answer. */
  answer: (name: string) => string[] | null | undefined
  close(): Promise<void>
}

export async function openDnsServer(answer: DnsServer['answer']): Promise<DnsServer> {
  const socket = createSocket('udp4')
  const server: DnsServer = {
    address: '',
    asked: [],
    answer,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  }
  socket.on('message', (query, { port, address }) => {
    const { name, end, type } = questionOf(query)
    server.asked.push(name)
    const found = server.answer(name)
    if (found !== undefined) socket.send(reply(query, end, type, found), port, address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  server.address = `127.0.0.1:${(socket.address() as AddressInfo).port}`
  return server
}

function questionOf(query: Buffer): { name: string; end: number; type: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length !== 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), end: at + 5, type: query.readUInt16BE(at + 1) }
}

/** RFC 1035: the question again, and an answer for each address of the kind that was asked for (1: A; others: none). */
function reply(query: Buffer, end: number, type: number, found: string[] | null): Buffer {
  const addresses = type === 1 ? (found ?? []).filter((one) => isIPv4(one)) : []
  const head = Buffer.from(query.subarray(0, 12))
  head.writeUInt16BE(found === null ? 0x8183 : 0x8180, 2)
  head.writeUInt16BE(addresses.length, 6)
  head.writeUInt16BE(0, 8)
  head.writeUInt16BE(0, 10)
  const answers = addresses.map((address) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...address.split('.').map(Number)]),
  )
  return Buffer.concat([head, query.subarray(12, end), ...answers])
}
