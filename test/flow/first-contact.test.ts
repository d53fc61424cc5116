/** What a newcomer sees at a terminal: a banner when all is ready, a line a request, and a sentence when an engine is away. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { anyPorts } from '../support/any-ports.ts'
import { eventually } from '../support/eventually.ts'
import { projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

/** `flotilla start` in a pseudo-terminal. */
function startAtTerminal(env: Record<string, string>) {
  const child = spawn('script', ['-qec', `${process.execPath} bin/flotilla.js start`, '/dev/null'], {
    cwd: projectFolder,
    env: { ...process.env, ...anyPorts, TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let shown = ''
  child.stdout.on('data', (chunk) => {
    shown += stripVTControlCharacters(String(chunk)).replaceAll('\r', '')
  })
  async function stop() {
    // As Ctrl-C at the terminal.
    child.stdin.write('\x03')
    if (child.exitCode === null) await once(child, 'exit')
  }
  onTestFinished(async () => {
    if (child.exitCode === null) await stop()
  })
  return { lines: () => shown.split('\n'), stop }
}

test('the banner is last, has the way in, and requests are a line each', { timeout: 120_000 }, async () => {
  const home = temporaryFolder()
  const { lines, stop } = startAtTerminal({ FLOTILLA_HOME: home })
  await eventually('it is ready', () => lines().some((one) => one.includes('npx flotilla tour')), 100_000)
  const all = lines()
  const from = all.findIndex((one) => one.startsWith('Flotilla is ready'))
  const banner = all.slice(from).filter((one) => one !== '')
  expect(from).toBeLessThan(20)
  expect(all.filter((one) => one.includes('relational.migrated'))).toHaveLength(1)
  expect(banner).toHaveLength(8)
  const password = readFileSync(join(home, 'admin-password'), 'utf8').trim()
  expect(all.filter((one) => one.includes(password))).toEqual([banner[1]])
  expect(banner[1]).toContain('admin@localhost')
  const [, main] = /main API +(\S+)/.exec(banner.join('\n'))!
  const console = await fetch(`${main}/`, {
    headers: { accept: 'text/html', 'sec-fetch-site': 'same-origin' },
  })
  expect(new URL(console.url).pathname).toBe('/console/')
  await fetch(`${main}/api/v1/openapi.json`, { headers: { 'sec-fetch-site': 'same-origin' } })
  await fetch(`${main}/api/v1/me`)
  await eventually('its line', () =>
    lines().some((one) => /^\d\d:\d\d:\d\d GET \/api\/v1\/me 401 .* ms/.test(one)),
  )
  expect(lines().some((one) => one.includes('openapi.json'))).toBe(false)
  await stop()
  expect(lines().join('\n')).toContain('process.stopped')
})

test('an engine that is away is named once, with its setting', { timeout: 120_000 }, async () => {
  const { lines } = startAtTerminal({
    FLOTILLA_HOME: temporaryFolder(),
    DATABASE_URL: 'postgres://a:b@127.0.0.1:1/c',
  })
  const waiting = () => lines().filter((one) => one.includes('start.waiting'))
  await eventually('it waits', () => waiting().length === 3, 100_000)
  expect(waiting()[0]).toContain('DATABASE_URL')
  expect(waiting().map((one) => /tries=(\d+)/.exec(one)?.[1])).toEqual(['1', '2', '4'])
})
