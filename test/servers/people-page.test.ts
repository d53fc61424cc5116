/** docs/people.md, followed to the letter: its own blocks in one shell, next to a running platform. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../../scripts/servers/children.ts'
import { type Newcomer, openNewcomer } from '../support/newcomer.ts'
import { codeBlocks } from '../support/pages.ts'

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>>
let port: number
beforeAll(async () => {
  port = await freePort()
  newcomer = openNewcomer({
    MAIN_API_PORT: String(port),
    VECTOR_GATEWAY_PORT: '0',
    WEBHOOK_GATEWAY: '127.0.0.1:0',
  })
  platform = await newcomer.leaveRunning('npx flotilla start', /^ready$/m)
}, 180_000)
afterAll(async () => {
  await platform?.end()
  await newcomer?.close()
})

test('its commands make the first admin, people and a session', async () => {
  const file = join(newcomer.folder, '.flotilla', 'admin-password')
  expect(existsSync(file)).toBe(true)
  expect(platform.output()).toContain('people.first-admin')
  const blocks = codeBlocks('docs/people.md').filter(({ language }) => language === 'sh')
  expect(blocks.map(({ heading }) => heading)).toEqual([
    'The first admin',
    'Adding, changing, removing',
    'Sessions of browsers',
  ])
  const script = blocks.map(({ code }) => code).join('\n')
  const printed = await newcomer.run(script.replaceAll('127.0.0.1:8081', `127.0.0.1:${port}`))
  expect(printed).toContain('{"ok":true,"data":{"changed":true}}')
  expect(printed).toMatch(/one_time_password +[a-z2-9-]{27}/)
  expect(printed).toContain('ana@example.com is member')
  expect(printed).toContain('ana@example.com is removed')
  expect(printed).toMatch(/"users":\[\{"uid":"person_[^}]*"email":"admin@localhost"/)
  expect(printed).toContain('{"ok":true,"data":{"ended":true}}')
  expect(existsSync(file)).toBe(false)
}, 180_000)
