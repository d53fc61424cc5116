/** A platform on distributed engines whose public topics all get real content: what agents, people and operators do. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '#client/client.ts'
import { createProcesses, type Processes, type ServiceProcess } from '../distributed-process.ts'
import { eventually } from '../eventually.ts'
import { type Answer, call as bareCall } from '../gateway-call.ts'
import { type ApiCall, exchange, trade } from '../main-api-platform.ts'
import { axisVector } from '../points.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../scripted-node.ts'
import { openWebhookSink, type WebhookSink } from '../webhook-sink.ts'

export interface FillingPlatform {
  processes: Processes
  /** Starts everything, writes to every public topic, waits until all is read, and stops again. */
  fill(round: string, more?: (api: Api) => Promise<void>): Promise<void>
  /** Runs a command with --json while nothing else runs. */
  command<T>(...args: string[]): Promise<T>
  close(): Promise<void>
}

export interface Api {
  call(method: string, path: string, body?: unknown): Promise<Answer>
  /** In the home of the running platform. */
  command<T>(...args: string[]): Promise<T>
}

const waitMs = 60_000

/** `env` names the engines. */
export async function openFillingPlatform(env: Record<string, string>): Promise<FillingPlatform> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const home = join(folder, 'home')
  const node = await openScriptedNode({ whale: echoScript })
  const sink = await openWebhookSink()
  writeFileSync(join(folder, 'nodes.yaml'), JSON.stringify({ nodes: { whale: { url: node.url } } }))
  writeFileSync(join(folder, 'targets.yaml'), JSON.stringify({ targets: { pager: { url: sink.url } } }))
  const processes = createProcesses({
    ...env,
    RUN_NODES_FILE: join(folder, 'nodes.yaml'),
    WEBHOOK_TARGETS_FILE: join(folder, 'targets.yaml'),
  })
  const command = <T>(...args: string[]) => processes.run<T>(args, home)
  return {
    processes,
    command,
    async fill(round, more) {
      const platform = await processes.start([], { home })
      const api = await signIn(platform, command, join(folder, round), round)
      await writePoints(platform, join(folder, round), round)
      await writeNotes(api, round)
      await changeCollections(api, round)
      await runWhale(api, round)
      await deleteAgent(api, round, sink)
      await more?.(api)
      await untilRead(api)
      platform.child.kill('SIGTERM')
      const code = await platform.finished
      if (code !== 0) throw new Error(`the platform ended with ${code}: ${platform.output().slice(-2_000)}`)
    },
    async close() {
      await processes.close()
      await Promise.all([closeNode(node), sink.close()])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function closeNode(node: ScriptedNode): Promise<void> {
  return node.close()
}

async function signIn(
  { baseUrl }: ServiceProcess,
  command: FillingPlatform['command'],
  volume: string,
  round: string,
): Promise<Api> {
  const agentId = `scout-${round}`
  const who = ['--agent-id', agentId, '--access', 'admin', '--tier', 'infra-architect']
  await command('agents', 'provision', ...who, '--volume', volume)
  const { key } = await command<{ key: string }>('agent-keys', 'issue', agentId)
  const call = (method: string, path: string, { token, ...given }: ApiCall = {}) =>
    bareCall(baseUrl, path, { method, ...given, ...(token ? { key: token } : {}) })
  const token = await exchange(call, await trade(call, key))
  return {
    command,
    async call(method, path, body) {
      const answer = await call(method, `/api/v1${path}`, { token, ...(body === undefined ? {} : { body }) })
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
      return answer
    },
  }
}

async function writePoints({ vectorUrl }: ServiceProcess, volume: string, round: string): Promise<void> {
  const agentId = `scout-${round}`
  const client = createClient({ vectorUrl, agentId, privateKeyFile: join(volume, 'ed25519.pem') })
  try {
    const points = Array.from({ length: 30 }, (_, n) => ({
      id: `${round}-${n}`,
      vector: axisVector(n),
      payload: { title: `Point ${n}: é 灯台`, n },
    }))
    await client.upsert('posts', points)
    await client.upsert('posts', [{ id: 'of-both-rounds', vector: axisVector(3), payload: { round } }])
    await client.waitFor(await client.delete('posts', [`${round}-1`, `${round}-2`]))
    // All read the point before the first is applied: the platform corrects what they write.
    const changes = Array.from({ length: 20 }, (_, n) => ({ set: { [`é ${n}`]: '灯台' } }))
    const change = (one: (typeof changes)[number]) =>
      client.setPayload('posts', [`${round}-3`], one, { wait: true })
    await Promise.all(changes.map(change))
  } finally {
    await client.close()
  }
}

async function writeNotes(api: Api, round: string): Promise<void> {
  const ids: number[] = []
  for (let n = 0; n < 8; n++) {
    const { json } = await api.call('POST', '/fleet_notes', {
      subject: `Note ${n} of ${round}`,
      body: 'Two lines\nand a "quote", é and 灯台.',
    })
    ids.push((json.data as { id: number }).id)
  }
  await api.call('PATCH', `/fleet_notes/${ids[0]}`, { status: 'resolved' })
  await api.call('PATCH', `/fleet_notes/${ids[1]}`, { status: 'archived' })
  await api.call('POST', '/goals', { title: `Goal of ${round}` })
}

async function changeCollections(api: Api, round: string): Promise<void> {
  for (const name of [`kept-${round}`, `gone-${round}`]) {
    await api.call('POST', '/collections', { name, description: 'é 灯台' })
  }
  await api.call('DELETE', `/collections/gone-${round}`)
}

async function runWhale(api: Api, round: string): Promise<void> {
  const message = { role: 'user', parts: [{ text: `What is new in ${round}?` }] }
  const { json } = await api.call('POST', '/runs', { appName: 'whale', newMessage: message })
  const { runId } = json.data as { runId: string }
  await eventually(
    'the run is over',
    async () => {
      const { json: shown } = await api.call('GET', `/runs/${runId}`)
      return (shown.data as { status: string }).status === 'completed'
    },
    waitMs,
  )
}

async function deleteAgent(api: Api, round: string, sink: WebhookSink): Promise<void> {
  await api.call('POST', '/agents', { agent_id: `gone-${round}` })
  await api.call('DELETE', `/agents/gone-${round}`)
  const arrived = () => sink.received.some(({ body }) => body.includes(`gone-${round}`))
  await eventually('the webhook of the deletion', arrived, waitMs)
}

/** Seen twice: between two groups a record may be on its way. */
function untilRead(api: Api): Promise<unknown> {
  const seen = new Set<string>()
  return eventually(
    'every group has read everything',
    async () => {
      const { json } = await api.call('GET', '/log/groups')
      const { groups, as_of } = json.data as { groups: { lag: number }[]; as_of: string }
      if (groups.some(({ lag }) => lag > 0)) seen.clear()
      else seen.add(as_of)
      return seen.size > 1
    },
    waitMs,
  )
}
