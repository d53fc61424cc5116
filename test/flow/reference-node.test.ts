/** The reference nodes of an embedded platform: whom they provision, what they answer, and the nodes file that names them. */

import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { deleteAgent, listAgents } from '#services/access/agents/agents.ts'
import { createNodeCalls } from '#services/runs/nodes/adk/call.ts'
import { loadNodes } from '#services/runs/nodes/nodes.ts'
import { keepNodesFile } from '#services/runs/reference-node/service.ts'
import { freePort } from '../../scripts/servers/children.ts'
import { eventually } from '../support/eventually.ts'
import { runFlotilla, spawnFlotilla } from '../support/flotilla-process.ts'
import { type GatewayPlatform, openGatewayPlatform } from '../support/gateway-platform.ts'

let running: GatewayPlatform | undefined

afterEach(async () => {
  await running?.close()
})

async function open(env: Record<string, string> = {}): Promise<GatewayPlatform> {
  running = await openGatewayPlatform({ NODES_PORT: '0', ...env }, { agents: true })
  return running
}

/** As the run gateway reads them. */
function loaded({ platform }: GatewayPlatform) {
  return loadNodes({ FLOTILLA_HOME: platform.home }).nodes
}

interface Entry {
  url: string
  codename: string
  headers: { Authorization: string }
}

function nodesOf({ platform }: GatewayPlatform): Record<string, Entry> {
  const path = join(platform.home, 'nodes.yaml')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  return parse(readFileSync(path, 'utf8')).nodes
}

async function ask(nodes: Record<string, Entry>, app: string, text: string, sessionId = 's') {
  const { url, headers } = nodes[app]!
  const post = (path: string, body: unknown) =>
    fetch(`${url}${path}`, { method: 'POST', headers: { ...headers }, body: JSON.stringify(body) })
  await post(`/apps/${app}/users/u/sessions/${sessionId}`, {})
  const newMessage = { role: 'user', parts: [{ text }] }
  const response = await post('/run_sse', { appName: app, userId: 'u', sessionId, newMessage })
  return (await response.text())
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => JSON.parse(frame.slice('data: '.length)))
}

async function saidBy(nodes: Record<string, Entry>, app: string, text: string, sessionId = 's') {
  const [event] = await ask(nodes, app, text, sessionId)
  return event.content.parts[0].text as string
}

test('six agents answer at one port, each by its role, and leave no notes', async () => {
  const own = await open()
  const nodes = nodesOf(own)
  expect(Object.keys(nodes)).toEqual(['whale', 'pulse', 'cipher', 'atlas', 'nexus', 'axon'])
  expect(loaded(own).map(({ codename }) => codename)).toEqual(
    Object.keys(nodes).map((slug) => slug.toUpperCase()),
  )
  for (const node of loaded(own)) await createNodeCalls().probeNode(node, AbortSignal.timeout(5_000))
  const agents = await listAgents(own.platform.engines.relational)
  expect(agents.map(({ agent_id, access }) => `${agent_id} ${access}`)).toEqual(
    ['atlas', 'axon', 'cipher', 'nexus', 'pulse', 'whale'].map((id) => `${id} member`),
  )
  const client = await own.clientOf('scout', { hubUrl: own.addresses.hub_url })
  const { data } = await client.embeddings('How the courier is deployed by night')
  const vector = data[0]!.embedding
  const payload = { title: 'Deploying the courier', mind_path: 'docs/courier.md', text: 'By night.' }
  await client.upsert('knowledgebase', [{ id: 'k-1', vector, payload }], { wait: true })
  await eventually('all nodes were probed', async () =>
    (await saidBy(nodes, 'nexus', 'Which nodes are there?', 'before')).includes('6 nodes'),
  )
  const question = 'how is the courier deployed by night?'
  const hit =
    /1\. \[`Deploying the courier`\]\(\/console\/search\?in=knowledgebase&like=k-1\) \(score 0\.\d\d, knowledgebase, `docs\/courier\.md`\)/
  const said = Object.fromEntries(
    await Promise.all(Object.keys(nodes).map(async (slug) => [slug, await saidBy(nodes, slug, question)])),
  )
  for (const text of Object.values(said)) expect(text).toMatch(hit)
  expect(said.whale).toMatch(/^\*\*1 record speaks of it\*\*.*\n\n1\. .*\n {3}`By night\.`/)
  expect(said.pulse).toMatch(/^\*\*All is well\.\*\*\n\nThese answer: vector engine/)
  expect(said.pulse).toMatch(/reader group/)
  expect(said.cipher).toContain('tier infra-architect: [`scout`](/console/agents/scout)')
  expect(said.atlas).toMatch(/^\*\*1 of 1 document speaks of it\.\*\*/)
  expect(said.nexus).toMatch(/^\*\*All is reachable:\*\* no webhook targets and 6 nodes\./)
  expect(
    Object.values(said)
      .join('\n')
      .match(/No model is set/g),
  ).toHaveLength(1)
  expect(Object.values(said).join('\n')).not.toContain('could not be read')
  expect((await client.notes.list()).records).toEqual([])
  await client.close()
})

test('an agent notes what it is asked to note, once', async () => {
  const own = await open()
  const nodes = nodesOf(own)
  const asked = 'Note this: the crane is broken\nsince noon'
  const said = await saidBy(nodes, 'atlas', asked)
  expect(said).toMatch(/^Noted as \[note \d+\]\(\/console\/notes\/\d+\): `the crane is broken`$/)
  expect(await saidBy(nodes, 'atlas', asked)).toBe(said)
  const client = await own.clientOf('scout', { hubUrl: own.addresses.hub_url })
  const { records } = await client.notes.list()
  expect(records).toMatchObject([
    { author: 'atlas', subject: 'the crane is broken', body: 'the crane is broken\nsince noon' },
  ])
  await client.close()
})

test('a deleted agent is not made again, one that was there before keeps its key, and an edited file stays', async () => {
  const own = await open()
  const { home, engines, log } = own.platform
  const kept = () => JSON.parse(readFileSync(join(home, 'reference-nodes.json'), 'utf8'))
  expect(kept().provisioned).toHaveLength(6)
  const nodes = nodesOf(own)
  await deleteAgent(engines.relational, 'atlas')
  const { provisionOnce } = await import('#services/runs/reference-node/service.ts')
  const parts = { relational: engines.relational, home, log }
  await provisionOnce(parts, kept().provisioned)
  const ids = async () => (await listAgents(engines.relational)).map(({ agent_id }) => agent_id)
  expect(await ids()).not.toContain('atlas')
  const [event] = await ask(nodes, 'atlas', 'are you there?')
  expect(event.error).toContain('unknown_agent')
  // Others with these names: a first start takes them as they are.
  await own.provision({ agentId: 'Atlas' })
  expect(await provisionOnce(parts, [])).toHaveLength(6)
  expect(await ids()).toContain('Atlas')
  const path = join(home, 'nodes.yaml')
  keepNodesFile(home, kept(), { ...kept(), port: 1 }, log)
  expect(nodesOf(own).atlas?.url).toBe('http://127.0.0.1:1')
  // As versions without skills made it.
  writeFileSync(path, readFileSync(path, 'utf8').replaceAll(/^ *skills: .*\n/gm, ''))
  keepNodesFile(home, { ...kept(), port: 1 }, { ...kept(), port: 1 }, log)
  expect(loaded(own).find(({ slug }) => slug === 'atlas')?.skills).toContain('Notes')
  writeFileSync(path, '# mine\n')
  keepNodesFile(home, { ...kept(), port: 1 }, { ...kept(), port: 2 }, log)
  expect(readFileSync(path, 'utf8')).toBe('# mine\n')
})

test('with a nodes file of ones own they stay away', async () => {
  const file = join(import.meta.dirname, '../data/nodes-own.yaml')
  const own = await open({ RUN_NODES_FILE: file })
  expect(existsSync(join(own.platform.home, 'nodes.yaml'))).toBe(false)
  expect(await listAgents(own.platform.engines.relational)).toEqual([])
})

test('one of them runs as a process of its own, with the port and the token of the nodes file', async () => {
  const own = await open()
  const { home } = own.platform
  const port = String(await freePort())
  const entry = {
    url: `http://127.0.0.1:${port}`,
    codename: 'SCOUT',
    role: 'Looking around',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the nodes file.
    headers: { Authorization: 'Bearer ${SCOUT_TOKEN}' },
  }
  const file = join(home, 'mine.yaml')
  writeFileSync(file, stringify({ nodes: { scout: entry } }))
  const { privateKeyPem } = await own.provision({ agentId: 'scout' })
  const key = join(home, 'scout.pem')
  writeFileSync(key, privateKeyPem)
  const { vector_url: url, hub_url: hubUrl } = own.addresses as Record<string, string>
  const env = { FLOTILLA_HOME: home, RUN_NODES_FILE: file, SCOUT_TOKEN: 'secret-token', LOG_LEVEL: 'warn' }
  const args = ['node', '--agent', 'SCOUT', '--key', key, '--url', url!, '--hub-url', hubUrl!]
  const node = spawnFlotilla(args, env)
  await eventually('the node is ready', () => /^ready$/m.test(node.stdout()))
  expect(node.stdout()).toBe(`node_url http://127.0.0.1:${port}\nready\n`)
  expect((await fetch(`http://127.0.0.1:${port}/list-apps`)).status).toBe(401)
  const nodes = { scout: { ...entry, headers: { Authorization: 'Bearer secret-token' } } }
  expect(await saidBy(nodes, 'scout', 'what is new?')).toMatch(
    /^\*\*Nothing in `knowledgebase` and `fleet_notes`/,
  )
  expect(await saidBy(nodes, 'scout', 'note this: all is quiet')).toMatch(/^Noted as \[note \d+\]/)
  node.child.kill('SIGTERM')
  expect((await node.finished).code).toBe(0)
  const refused = await runFlotilla(['node', '--agent', 'NOBODY', '--host', '0.0.0.0'], env)
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('FLOTILLA_NODE_TOKEN')])
})
