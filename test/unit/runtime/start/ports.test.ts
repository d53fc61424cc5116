/** Ports are taken before anything else, and kept for their servers. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { holdPorts } from '#runtime/start/ingress.ts'

async function openServer(host = '127.0.0.1'): Promise<number> {
  const server = createServer().listen({ host, port: 0 })
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

async function freePort(): Promise<number> {
  const server = createServer().listen({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

test('every port that another server has is named, with its variables', async () => {
  const [one, two, free] = [await openServer(), await openServer(), await freePort()]
  const holding = holdPorts([
    { variables: 'ONE_PORT or HOST', host: '127.0.0.1', port: one },
    { variables: 'FREE_PORT', host: '127.0.0.1', port: free },
    { variables: 'RELAY', host: null, port: two },
  ])
  await expect(holding).rejects.toMatchObject({
    code: 'invalid_configuration',
    message: expect.stringMatching(
      new RegExp(`${one} \\(another server has it\\).*ONE_PORT or HOST\\.\\n.*${two}.*RELAY`),
    ),
  })
  // The free one was given back.
  await (await holdPorts([{ variables: 'FREE_PORT', host: '127.0.0.1', port: free }])).close()
})

test('a held port is nobody else’s until it is released; who connects is cut off', async () => {
  const port = await freePort()
  const wanted = [{ variables: 'PORT', host: '127.0.0.1', port }]
  const held = await holdPorts(wanted)
  await expect(holdPorts(wanted)).rejects.toThrow(/another server has it/)
  const caller = connect(port, '127.0.0.1')
  caller.on('error', () => {})
  await once(caller, 'close')
  await held.release(port)
  await (await holdPorts(wanted)).close()
  await held.close()
})

test('two interfaces on one port are refused, and port 0 is left to the system', async () => {
  const port = await freePort()
  const wanted = (variables: string) => ({ variables, host: '127.0.0.1', port })
  await expect(holdPorts([wanted('ONE'), wanted('TWO')])).rejects.toThrow(/TWO/)
  await (await holdPorts([{ variables: 'ANY', host: null, port: 0 }])).close()
})

test('an address that this machine does not have is a fault', async () => {
  await expect(holdPorts([{ variables: 'PORT or HOST', host: '192.0.2.1', port: 9_999 }])).rejects.toThrow(
    /192\.0\.2\.1 port 9999 \(this machine does not have that address\).*HOST/,
  )
})
