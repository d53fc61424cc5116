/**
 * The pages for authors of agents, followed to the letter one after the other on one platform, on free ports, after the README was
 * followed on it.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createClient } from '#client/client.ts'
import { createMainApi } from '#client/main-api.ts'
import { services } from '#services/index.ts'
import { nodesFile } from '#services/runs/nodes/nodes.ts'
import { installOpenai } from '../../scripts/servers/tools.ts'
import { anyPorts } from '../support/any-ports.ts'
import type { Addresses } from '../support/flotilla-process.ts'
import { call } from '../support/gateway-call.ts'
import { expectTidy, followReadme, type Newcomer, openNewcomer, runBlocks } from '../support/newcomer.ts'
import { blocksOf, codeBlocks, projectFolder } from '../support/pages.ts'

vi.setConfig({ testTimeout: 300_000 })

let newcomer: Newcomer
let platform: Awaited<ReturnType<Newcomer['leaveRunning']>>
let addresses: Addresses
beforeAll(async () => {
  newcomer = openNewcomer(anyPorts)
  platform = await newcomer.leaveRunning('npm start', /^ready$/m)
  addresses = JSON.parse(readFileSync(join(newcomer.folder, '.flotilla/run/addresses.json'), 'utf8'))
  await followReadme(newcomer)
})
afterAll(async () => {
  await platform?.end()
  await newcomer?.close()
})

const save = (file: string, code: string) => writeFileSync(join(newcomer.folder, file), code)
const shellOf = (page: string) =>
  codeBlocks(page)
    .filter(({ language }) => language === 'sh')
    .map(({ code }) => code)

/** The client of the README's agent. */
const clientOfScout = () =>
  createClient({
    vectorUrl: addresses.vector_url,
    agentId: 'scout',
    privateKeyFile: join(newcomer.folder, '.flotilla/agents/scout/ed25519.pem'),
  })

describe('docs/addresses.md', () => {
  const page = readFileSync(join(projectFolder, 'docs/addresses.md'), 'utf8')
  /** The cells of the table that begins with `head`, without marks. */
  const tableOf = (head: string) =>
    page
      .slice(page.indexOf(`\n| ${head}`) + 1)
      .split('\n\n')[0]!
      .split('\n')
      .slice(2)
      .map((row) =>
        row
          .split('|')
          .slice(1, -1)
          .map((cell) => cell.trim()),
      )

  test('has the addresses, ports and variables of the services', () => {
    const shown = tableOf('service').map(([, port, variable, name]) => [port, variable, name])
    const declared = services.flatMap((service) => {
      if (service.kind !== 'ingress') return []
      const { address } = service
      const variable = 'portVariable' in address ? address.portVariable : address.loopbackVariable
      return [[String(address.port), variable, address.name]]
    })
    expect(
      shown.map((row) => row.map((cell) => cell!.replaceAll('`', '').replace(/ .*/, ''))).sort(),
    ).toEqual(declared.sort())
  })

  test('its reference pages and its first command answer', async () => {
    for (const [, , , name, , reference] of tableOf('service')) {
      const url = addresses[name!.replaceAll('`', '') as keyof Addresses]
      expect((await fetch(`${url}${reference!.replaceAll('`', '')}`)).status).toBe(200)
    }
    expect(await newcomer.run(shellOf('docs/addresses.md').join('\n'))).toContain('"status":"pass"')
  })

  test('says which credential works where', async () => {
    const agent = clientOfScout()
    const { key: agentKey } = JSON.parse(await newcomer.run('npx flotilla agent-keys issue scout --json'))
    const options = { baseUrl: addresses.base_url, identityExchangeUrl: addresses.identity_exchange_url }
    const api = createMainApi({ ...options, agentKey })
    const credentials: Record<string, string> = {
      'gateway key': await agent.apiKey(),
      'ID token of an agent': await api.idToken(),
      'ID token of a person': await idTokenOfPerson(),
      'agent key': agentKey,
    }
    await agent.close()
    await api.close()
    const paths: Record<string, [url: string, path: string]> = {
      'vector gateway': [addresses.vector_url, '/v1/stats'],
      'run gateway': [addresses.agent_gateway_url, '/runs'],
      hub: [addresses.hub_url, '/goals'],
      'main API': [addresses.base_url, '/api/v1/me'],
      'webhook relay': [addresses.webhook_url, '/health'],
    }
    const [, , ...heads] = page
      .match(/^\| \| gateway key .*$/m)![0]
      .split('|')
      .map((cell) => cell.trim())
    const rows = tableOf('| gateway key')
    expect(rows.map(([service]) => service)).toEqual(Object.keys(paths))
    for (const [service, ...cells] of rows) {
      const [url, path] = paths[service!]!
      const statuses = await Promise.all(
        cells.map(async (_, n) => (await call(url, path, { key: credentials[heads[n]!]! })).status),
      )
      expect([service, ...statuses]).toEqual([service, ...cells.map((cell) => (cell === 'no' ? 401 : 200))])
    }
  })

  /** Signs in with the one-time password and replaces it, as a person must. */
  async function idTokenOfPerson(): Promise<string> {
    const email = 'ben@example.com'
    const added = JSON.parse(await newcomer.run(`npx flotilla users add ${email} --role viewer --json`))
    const body = { email, password: added.one_time_password }
    const { json } = await call(addresses.base_url, '/api/v1/session', { body })
    const { idToken } = json.data as { idToken: string }
    const change = { current: body.password, new: 'a password of my own' }
    await call(addresses.base_url, '/api/v1/me/password', { method: 'PUT', key: idToken, body: change })
    return idToken
  }
})

describe('docs/quick-start.md', () => {
  const page = codeBlocks('docs/quick-start.md')

  test('begins as the README does, with an agent of its own', async () => {
    const [install, provision] = page.map(({ code }) => code)
    expect(install).toBe(blocksOf(codeBlocks('README.md'), 'Start', 'sh')[0])
    expect(await newcomer.run(provision!)).toContain('.flotilla/agents/rover/ed25519.pem')
  })

  test('curl and openssl', async () => {
    const script = blocksOf(page, 'curl and openssl', 'sh').join('')
    const printed = await newcomer.run(script)
    expect(printed).toContain('"status":"applied"')
    expect(printed).toMatch(/"results":\[\{"id":"curl-2"/)
    expect(script).not.toMatch(/\b(node|npx|python3|jq|xxd)\b/)
  })

  test('Python, and a refusal that says why', { timeout: 600_000 }, async () => {
    const [install] = blocksOf(page, 'Python', 'sh')
    const [code] = blocksOf(page, 'Python', 'py')
    const python = 'playground/python/bin/python playground/quick_start.py'
    save('playground/quick_start.py', code!)
    expect(await newcomer.run(`${install}${python}`)).toMatch(/^\[Hit\(id='py-1'/m)
    save('playground/quick_start.py', code!.replaceAll('"knowledgebase"', '"nowhere"'))
    await expect(newcomer.run(python)).rejects.toThrow(/collection_not_found/)
  })

  test('TypeScript', async () => {
    const [code] = blocksOf(page, 'TypeScript', 'ts')
    save('playground/quick-start.mjs', code!)
    const printed = await newcomer.run('node playground/quick-start.mjs')
    expect(printed).toContain("id: 'ts-2'")
    expect(printed).not.toContain("id: 'ts-1'")
  })
})

test('docs/embeddings.md: OpenAI’s own SDK makes vectors', { timeout: 600_000 }, async () => {
  const [code] = codeBlocks('docs/embeddings.md').filter(({ language }) => language === 'py')
  save('playground/embed.py', code!.code)
  const client = clientOfScout()
  const variables = `VECTOR_URL=${addresses.vector_url} GATEWAY_KEY=${await client.apiKey()} PYTHONPATH=${await installOpenai()}`
  await client.close()
  expect(await newcomer.run(`${variables} python3 playground/embed.py`)).toMatch(/^\S+ \[1536, 1536\]$/m)
})

test('docs/main-api.md: an agent gets its token and does what operators do', async () => {
  const printed = (await runBlocks(newcomer, shellOf('docs/main-api.md'))).join('\n')
  expect(printed).not.toContain('"code":')
  expect(printed).toMatch(/"slug": "clerk"/)
  expect(printed).toContain('"agent_id":"surveyor","uid"')
  expect(printed).toContain('"deleted":true')
  expect(printed).toMatch(/\nid: \S+\ndata: \{"partition":/)
  expect(printed).toContain('"next":"0:')
  expect(printed).toContain('event: ready')
  expect(printed).toContain('"dry_run":true')
  expect(printed).toContain('"action":"agent.update","target":"surveyor"')
})

test('docs/hub.md: notes in a thread, goals, changes', async () => {
  const [, thread, goal, events, commands] = await runBlocks(newcomer, shellOf('docs/hub.md'))
  expect(thread).toContain('"body":"Repaired."')
  expect(thread).toMatch(/"subject": "Lamp of the lighthouse"[\s\S]*"subject": "Re: Lamp"/)
  expect(goal).toContain('"status":"resolved"')
  expect(goal).toContain('"title":"Every lamp is looked after"')
  expect(events).toContain('event: ready')
  expect(commands).toMatch(/Re: Lamp of the lighthouse +operator/)
  expect(commands).toMatch(/Every note is answered +operator +high +pending/)
})

test('docs/schedules.md: one that fires at once, and what became of its time', async () => {
  const outputs = await runBlocks(newcomer, shellOf('docs/schedules.md'))
  expect(outputs[0]).toMatch(/sched_[0-9a-f]{32}/)
  expect(outputs[1]).toMatch(/run_[0-9a-f]+.*is paused.*removed/s)
})

test('docs/runs.md: words with agents, by the command line and over HTTP', async () => {
  const outputs = await runBlocks(newcomer, shellOf('docs/runs.md'))
  const [commands = '', , whole = '', agents, streamed = '', canceled, dispatched, , found, history] = outputs
  expect(agents).toContain('"slug": "whale"')
  expect(found).toContain('"ticket": "4711"')
  expect(history).toMatch(/"author":"user".*"deleted":true/s)
  expect(outputs.at(-1)).toMatch(/^ATLAS: .*^ATLAS: .*flotilla chat ATLAS --session/ms)
  expect(commands).toMatch(/^PULSE: /m)
  expect(commands).toMatch(/^AXON: /m)
  expect(commands).toMatch(/^run_[0-9a-f]{32} +PULSE +completed +mention/m)
  expect(JSON.parse(whole)).toMatchObject([{ author: 'ATLAS' }])
  expect(streamed).toMatch(/id: 1\ndata: \{.*"author":"(WHALE|NEXUS)"/)
  expect(streamed.match(/"author":"gateway"/g)).toHaveLength(2)
  const ids = [...streamed.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))
  const again = ids.indexOf(2, ids.indexOf(2) + 1)
  expect(ids.slice(again)).toEqual(ids.slice(1, again))
  expect(canceled).toMatch(/"status": ?"(completed|canceled)"/)
  expect(dispatched).toContain('"customMetadata":{"dispatch":')
  expect(dispatched).toMatch(/"result": "\S/)
})

test('docs/chat-windows.md: words with agents by curl and by OpenAI’s own packages', {
  timeout: 600_000,
}, async () => {
  const page = codeBlocks('docs/chat-windows.md')
  const codeIn = (language: string) => page.find((one) => one.language === language)!.code
  save('playground/chat.py', codeIn('py'))
  save('playground/chat.mjs', codeIn('js'))
  const [, talk = '', session = '', python = '', typescript = ''] = await runBlocks(newcomer, [
    ...shellOf('docs/chat-windows.md'),
    `PYTHONPATH=${await installOpenai()} python3 playground/chat.py`,
    'node playground/chat.mjs',
  ])
  expect(talk).toContain('"id":"ATLAS","object":"model"')
  expect(talk).toContain('"object":"chat.completion"')
  expect(talk).toMatch(/"object":"chat\.completion\.chunk".*"finish_reason":"stop"[\s\S]*^data: \[DONE\]$/m)
  expect(session.match(/"object":"chat\.completion"/g)).toHaveLength(2)
  expect(session).toContain('And its queues?')
  for (const said of [python, typescript]) {
    expect(said.trim().length).toBeGreaterThan(20)
    expect(said).not.toMatch(/Traceback|Error/)
  }
  const shown = await newcomer.run(
    'npx flotilla sessions show from-python --user window; npx flotilla sessions show from-typescript --user window',
  )
  expect(shown.match(/And the relay\?/g)).toHaveLength(2)
})

test('docs/nodes.md: its files are sound, and an agent runs as a process of its own', async () => {
  const page = codeBlocks('docs/nodes.md')
  const files = page.filter(({ language }) => language === 'yaml')
  const slugs = files.map(({ code }) =>
    nodesFile.parse(code, { ATLAS_TOKEN: 'secret-token' }, 'nodes.yaml').nodes.map(({ slug }) => slug),
  )
  expect(slugs).toEqual([['atlas', 'axon'], ['scout']])
  const [command] = page.filter(({ code }) => code.startsWith('npx flotilla node'))
  const node = await newcomer.leaveRunning(command!.code.replace('8801', '0'), /http:\/\/\S+:\d+/)
  await node.end()
})

test('the files made are in the playground, where git and the checks ignore it', () => expectTidy(newcomer))
