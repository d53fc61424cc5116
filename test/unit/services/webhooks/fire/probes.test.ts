/** The connectivity of targets, as health reports it. */

import { createServer, type Server } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { openProbes } from '#services/webhooks/fire/probes.ts'
import type { WebhookTarget } from '#services/webhooks/targets/targets-file.ts'
import { eventually } from '../../../../support/eventually.ts'

/** What clients sent, by connection; it answers nothing. */
async function openSink() {
  const connections: Buffer[][] = []
  const server: Server = createServer((socket) => {
    const received: Buffer[] = []
    connections.push(received)
    socket.on('data', (bytes) => received.push(bytes)).on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { connections, port: (server.address() as { port: number }).port }
}

function probing(urls: Record<string, string>) {
  let targets = toTargets(urls)
  const listeners: (() => void)[] = []
  const probes = openProbes({
    current: () => ({ targets, secrets: [], version: '1' }),
    onChange: (listener) => void listeners.push(listener as () => void),
  })
  onTestFinished(() => probes.close())
  return {
    probes,
    change(next: Record<string, string>) {
      targets = toTargets(next)
      for (const listener of listeners) listener()
    },
  }
}

const toTargets = (urls: Record<string, string>) =>
  new Map(Object.entries(urls).map(([name, url]) => [name, { name, url: new URL(url) } as WebhookTarget]))

test('a probe connects and sends nothing; TLS that is not answered, closed ports and unknown names are not reachable', async () => {
  const { connections, port } = await openSink()
  const { probes } = probing({
    plain: `http://127.0.0.1:${port}/hook?key=1`,
    silent: `https://127.0.0.1:${port}/hook`,
    closed: 'http://127.0.0.1:1/',
    named: `http://localhost:${port}/`,
    unknown: 'https://no-such-host.invalid/',
  })
  const last = (name: string) => eventually(`the probe of ${name}`, () => probes.last(name))
  expect(await last('plain')).toMatchObject({ reachable: true })
  expect(await last('named')).toMatchObject({ reachable: true })
  for (const name of ['silent', 'closed', 'unknown'])
    expect(await last(name)).toMatchObject({ reachable: false })
  // Only the beginning of TLS was ever sent: never a request.
  const sent = connections.map((received) => Buffer.concat(received)).filter((bytes) => bytes.length > 0)
  expect(sent.length).toBeGreaterThan(0)
  for (const bytes of sent) expect(bytes[0]).toBe(0x16)
})

test('a target that is added is probed at once, one that is removed is forgotten', async () => {
  const { port } = await openSink()
  const { probes, change } = probing({ a: 'http://127.0.0.1:1/' })
  await eventually('the first probe', () => probes.last('a'))
  change({ b: `http://127.0.0.1:${port}/` })
  await eventually('the new one', () => probes.last('b')?.reachable)
  await eventually('the old one is gone', () => probes.last('a') === null)
  change({ b: 'http://127.0.0.1:1/' })
  await eventually('its new address is probed', () => probes.last('b')?.reachable === false)
})

test('closing begins no further probe, and waits for no silent target', async () => {
  const { connections, port } = await openSink()
  const silent = Array.from({ length: 40 }, (_, n) => [`t${n}`, `https://127.0.0.1:${port}/`])
  const { probes } = probing(Object.fromEntries(silent))
  await eventually('probes run', () => connections.length > 0)
  await probes.close()
  // Eight side by side is all that had begun.
  expect(connections.length).toBeLessThanOrEqual(8)
})
