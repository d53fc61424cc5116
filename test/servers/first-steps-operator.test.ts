/**
 * The pages for those who run the platform, followed to the letter one after the other on one platform, on free ports, after the README
 * was followed on it.
 */

import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { freePort } from '../../scripts/servers/children.ts'
import { anyPorts } from '../support/any-ports.ts'
import { expectTidy, followReadme, type Newcomer, openNewcomer, runBlocks } from '../support/newcomer.ts'
import { blocksOf, codeBlocks, projectFolder } from '../support/pages.ts'

// Only ends a hang.
vi.setConfig({ testTimeout: 300_000 })

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>>
beforeAll(async () => {
  newcomer = openNewcomer(anyPorts)
  platform = await newcomer.leaveRunning('npm start', /^ready$/m)
  await followReadme(newcomer)
})
afterAll(async () => {
  await platform?.end()
  await newcomer?.close()
})

/** The first output of commands that never end by themselves. */
async function firstWords(command: string): Promise<string> {
  const running = await newcomer.leaveRunning(command, /\S/)
  await running.end()
  return running.output()
}

describe('docs/command-line.md', () => {
  const commands = readFileSync(join(projectFolder, 'docs/command-line.md'), 'utf8').matchAll(
    /^\| `(npx flotilla [^`]+)`/gm,
  )
  test.each([...commands].map(([, command]) => command!))('%s shows something', async (command) => {
    const isEndless = /--watch|tail/.test(command)
    const printed = isEndless ? await firstWords(command) : await newcomer.run(command)
    expect(printed.trim()).not.toBe('')
    expect(printed).not.toMatch(/error/i)
  })
})

test('packages/stidx/README.md: an index of pages, and one of what the gateway has', async () => {
  const page = codeBlocks('packages/stidx/README.md')
  const pages = await newcomer.run(blocksOf(page, 'From a folder of Markdown', 'sh').join(''))
  expect(pages).toContain('Topics')
  const [gateway] = blocksOf(page, 'From the gateway, and back', 'sh')
  expect(await newcomer.run(gateway!)).toContain('The harbour master is away')
})

test('docs/collections.md: one is made, used and deleted', async () => {
  const [commands] = blocksOf(codeBlocks('docs/collections.md'), 'Make one, use it, delete it', 'sh')
  const printed = await newcomer.run(commands!)
  expect(printed).toContain('The lighthouse is repaired')
  expect(printed).toContain('pier is deleted')
})

test('docs/sinks.md: files of records', async () => {
  const [sink] = blocksOf(codeBlocks('docs/sinks.md'), 'Sinks: copies of topics in files and tables', 'sh')
  expect(await newcomer.run(sink!)).toMatch(/^\d+ records? of hub.records copied to /m)
})

describe('webhooks', () => {
  const targetsFile = () => join(newcomer.folder, '.flotilla/targets.yaml')

  test('docs/webhook-relay.md: an event without targets, and a sound targets file', async () => {
    const page = codeBlocks('docs/webhook-relay.md')
    const [fire] = blocksOf(page, 'Fire', 'sh')
    expect(JSON.parse(await newcomer.run(fire!))).toEqual({
      idempotency_key: 'ATLAS-t-1-task.completed',
      deliveries: [],
    })
    const [targets] = blocksOf(page, 'The targets file', 'yaml')
    const [check] = blocksOf(page, 'The targets file', 'sh')
    writeFileSync(targetsFile(), targets!)
    // The platform does not know these variables: it goes on without targets.
    const secrets = `DEPLOY_TOKEN=a-token-of-some-length DEPLOY_SIGNING_SECRET=whsec_${Buffer.alloc(32, 7).toString('base64')}`
    expect(await newcomer.run(`${secrets} ${check}`)).toMatch(/deploy/)
    rmSync(targetsFile())
  })

  test('docs/webhook-courier.md: three receivers, of which one is away and one refuses', async () => {
    const page = blocksOf(codeBlocks('docs/webhook-courier.md'), 'Try it', 'sh')
    const ports = await Promise.all([freePort(), freePort(), freePort()])
    const [start, file, fire, more, trouble, replay] = page.map((code) =>
      ports.reduce((text, port, n) => text.replaceAll(String(7001 + n), String(port)), code),
    ) as [string, string, string, string, string, string]
    const commands = start.trim().split('\n')
    const open = (n: number) => newcomer.leaveRunning(commands[n]!, /listens on/)
    const receivers = await Promise.all([open(0), open(1), open(2)])
    const shown = (n: number, text: string | RegExp) =>
      expect.poll(() => receivers[n]!.output(), { timeout: 150_000 }).toMatch(text)
    const targets = () => newcomer.run('npx flotilla webhooks targets')

    expect(await newcomer.run(file)).toContain('picky')
    await expect.poll(targets, { timeout: 60_000 }).toContain('picky')
    await newcomer.run(fire)
    await shown(0, /ATLAS t-2/)
    await shown(1, /ATLAS t-1/)
    expect(receivers[1]!.output()).not.toContain('t-2')

    await receivers[0]!.end()
    expect(await newcomer.run(more)).toMatch(/^audit-log .* 3 /m)
    await shown(1, /ATLAS t-5/)
    receivers[0] = await open(0)
    await shown(0, /t-3[\s\S]*t-4[\s\S]*t-5/)

    await newcomer.run(trouble)
    await shown(2, /t-7, after a gap through|t-7 .*after a gap through/)
    expect(await newcomer.run('npx flotilla webhooks dead-letters list')).toMatch(
      /^picky .* TROUBLE +t-6 +3 /m,
    )
    await receivers[2]!.end()
    receivers[2] = await newcomer.leaveRunning(commands[2]!.replace(/ --refuse.*/, ''), /listens on/)
    await newcomer.run(replay)
    await shown(2, /TROUBLE t-6.*replayed/)
    for (const receiver of receivers) await receiver.end()
  })
})

test('docs/backup.md: a backup comes back as a platform of its own', async () => {
  const page = codeBlocks('docs/backup.md').filter(
    ({ heading }) => heading === 'One process on embedded engines',
  )
  const blocks = page.map(({ code }) => code.replaceAll('/tmp/', `${newcomer.folder}/playground/`))
  const start = blocks.pop()!
  const printed = (await runBlocks(newcomer, blocks)).join('')
  expect(printed).toContain('every checksum is right')
  const again = await newcomer.leaveRunning(
    `AGAIN=${newcomer.folder}/playground/flotilla-again\n${start}`,
    /^ready$/m,
  )
  const notes = 'FLOTILLA_HOME=playground/flotilla-again npx flotilla notes list'
  expect(await newcomer.run(notes)).toContain('Lamp of the lighthouse')
  await again.end()
})

test('docs/people.md: the first admin, people and a session of a browser', async () => {
  const file = join(newcomer.folder, '.flotilla/admin-password')
  expect(existsSync(file)).toBe(true)
  const blocks = codeBlocks('docs/people.md').filter(({ language }) => language === 'sh')
  const headings = ['The first admin', 'Adding, changing, removing', 'Sessions of browsers']
  expect(blocks.map(({ heading }) => heading)).toEqual(headings)
  const outputs = await runBlocks(
    newcomer,
    blocks.map(({ code }) => code),
  )
  const printed = outputs.join('\n')
  expect(printed).toContain('{"ok":true,"data":{"changed":true}}')
  expect(printed).toMatch(/one_time_password +[a-z2-9-]{27}/)
  expect(printed).toContain('ana@example.com is member')
  expect(printed).toContain('ana@example.com is removed')
  expect(printed).toMatch(/"users":\[\{"uid":"person_[^}]*"email":"admin@localhost"/)
  expect(printed).toContain('{"ok":true,"data":{"ended":true}}')
  expect(existsSync(file)).toBe(false)
})

test('the files made are in the playground, where git and the checks ignore it', () => expectTidy(newcomer))
