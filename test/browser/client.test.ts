/** The client in a page of Chromium, bundled as its users bundle it: no module of Node, one origin for all interfaces. */

import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { rolldown } from 'rolldown'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openChromium } from '../support/console.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { projectFolder } from '../support/pages.ts'

vi.setConfig({ testTimeout: 240_000 })

const page = `import { createClient } from '@flotilla/client'
import { work } from '${join(projectFolder, 'test/support/client-program.js')}'

globalThis.run = (options) => work(createClient(options), 'atlas')
`

/** The bundle of a page; fails where the client imports what a browser has not. */
async function bundle(): Promise<string> {
  const bundled = await rolldown({
    input: 'page',
    platform: 'browser',
    cwd: projectFolder,
    onLog: (level, { message }) => {
      if (level === 'warn') throw new Error(message)
    },
    plugins: [
      {
        name: 'page',
        resolveId: (id) => (id === 'page' ? '\0page' : null),
        load: (id) => (id === '\0page' ? page : null),
      },
    ],
  })
  const { output } = await bundled.generate({ format: 'iife' })
  return output[0].code
}

/** Serves the page, and passes `/<name>/…` on to the interface of this name. */
async function openOrigin(interfaces: Record<string, string>, script: string): Promise<string> {
  const server = createServer((asked, answer) => {
    const [, name = '', path = ''] = /^\/(\w+)(\/.*)$/.exec(asked.url ?? '') ?? []
    const target = interfaces[name]
    if (target === undefined) {
      const isScript = asked.url === '/client.js'
      answer.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      answer.end(isScript ? script : '<!doctype html><script src="/client.js"></script>')
      return
    }
    const { headers, method } = asked
    const passed = request(new URL(path, target), { method, headers }, (from) => {
      answer.writeHead(from.statusCode ?? 502, from.headers)
      from.pipe(answer)
    })
    asked.pipe(passed)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('an agent in a page shakes hands, remembers, recalls, writes a note, and talks to ATLAS', async () => {
  const script = await bundle()
  expect(script).not.toMatch(/\bfrom ['"]node:|require\(['"]node:/)
  const platform: MainApiPlatform = await openMainApiPlatform({ NODES_PORT: '0' }, { agents: true })
  onTestFinished(() => platform.close())
  const { privateKeyPem } = await platform.provision({ agentId: 'rover' })
  const { vector_url: vector, hub_url: hub, agent_gateway_url: run } = platform.addresses
  const origin = await openOrigin({ vector, hub, run } as Record<string, string>, script)
  const chromium = await openChromium()
  onTestFinished(() => chromium.close())
  const opened = await chromium.newPage()
  await opened.goto(`${origin}/`)
  const options = {
    agentId: 'rover',
    privateKeyPem,
    vectorUrl: `${origin}/vector`,
    hubUrl: `${origin}/hub`,
    runUrl: `${origin}/run`,
  }
  expect(await opened.evaluate(`run(${JSON.stringify(options)})`)).toEqual({
    ids: 2,
    found: 'The ferry leaves at nine',
    note: 'Ferry',
    run: 'completed',
    spoke: true,
    started: 'ATLAS',
  })
})
