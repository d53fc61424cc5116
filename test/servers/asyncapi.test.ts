/** The description of the topics, as it is served, has no fault that AsyncAPI's own parser could find. */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { installAsyncApiParser } from '../../scripts/servers/install.ts'
import { call } from '../support/gateway-call.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { temporaryFolder } from '../support/temporary.ts'

const run = promisify(execFile)

let api: MainApiPlatform
beforeAll(async () => {
  api = await openMainApiPlatform()
})
afterAll(() => api?.close())

/** In a process of its own: its types and its many packages stay out of ours. */
const program = `
const { Parser } = require(process.argv[1])
const text = require('node:fs').readFileSync(process.argv[2], 'utf8')
new Parser().parse(text).then(({ document, diagnostics }) => {
  const channels = document?.allChannels().all().map((channel) => channel.address())
  const faults = diagnostics.map(({ message, path }) => path.join('/') + ': ' + message)
  console.log(JSON.stringify({ channels, faults }))
})`

test('asyncapi.json asks for no token and is valid', async () => {
  const { status, headers, text } = await call(api.baseUrl, '/api/v1/asyncapi.json')
  expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
  const file = join(temporaryFolder(), 'asyncapi.json')
  writeFileSync(file, text)
  const args = ['-e', program, await installAsyncApiParser(), file]
  const { stdout } = await run(process.execPath, args, { timeout: 60_000 })
  const { channels, faults } = JSON.parse(stdout) as { channels: string[]; faults: string[] }
  expect(faults).toEqual([])
  expect(channels.toSorted()).toEqual([
    'audit.events',
    'fleet.events',
    'hub.records',
    'runs.events',
    'vectors.collections',
    'vectors.commands',
    'webhooks.attempts',
  ])
})

test('its page asks for no token, and may load nothing', async () => {
  const { status, headers, text } = await call(api.baseUrl, '/api/v1/asyncapi')
  expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(text).toContain('href="asyncapi.json"')
})
