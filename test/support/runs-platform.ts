/** The whole platform on embedded engines in this process, with agents at scripted nodes, for the flow tests of runs. */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Answer, type BareCall, call as bareCall } from './gateway-call.ts'
import type { RunningServices } from './gateway-platform.ts'
import { type HubPlatform, openHubPlatform } from './hub-platform.ts'
import { echoScript, openScriptedNode, type Script, type ScriptedNode } from './scripted-node.ts'
import { readSse, type SseReader, type SseRequest } from './sse-reader.ts'

export interface RunsPlatform extends Omit<HubPlatform, 'call'> {
  runUrl: string
  /** All agents are apps of this node. */
  node: ScriptedNode
  /** Sets what an agent does from now on. */
  script(slug: string, script: Script): void
  /** Replaces the nodes file. */
  writeNodes(nodes: Record<string, Record<string, unknown>>): void
  /** Calls the run gateway. */
  call(method: string, path: string, given?: RunsCall): Promise<Answer>
  /** POST /<slug>/run with this text, as a member unless a key is given. */
  run(slug: string, text: string, given?: RunsCall & { fields?: Record<string, unknown> }): Promise<Answer>
  /** A stream of the run gateway. */
  stream(path: string, given?: Omit<SseRequest, 'key'> & { key?: string }): Promise<SseReader>
  /** A key of a member, the caller where none is given. */
  memberKey(): Promise<string>
}

export interface RunsCall extends Pick<BareCall, 'body' | 'headers'> {
  key?: string
}

export const agents = ['whale', 'pulse', 'cipher', 'atlas', 'nexus', 'axon'] as const

/** Agents say what they heard until a test scripts them. */
export async function openRunsPlatform(
  env: Record<string, string> = {},
  options: RunningServices = {},
): Promise<RunsPlatform> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-nodes-'))
  const path = join(folder, 'nodes.yaml')
  const node = await openScriptedNode(Object.fromEntries(agents.map((slug) => [slug, echoScript])))
  const writeNodes: RunsPlatform['writeNodes'] = (nodes) => {
    writeFileSync(`${path}.new`, JSON.stringify({ nodes }))
    renameSync(`${path}.new`, path)
  }
  writeNodes(Object.fromEntries(agents.map((slug) => [slug, { url: node.url, concurrency: 200 }])))
  const platform = await openHubPlatform({ RUN_GATEWAY_PORT: '0', RUN_NODES_FILE: path, ...env }, options)
  const runUrl = platform.addresses.agent_gateway_url as string
  const memberKey = () => platform.keyFor('member')

  async function call(method: string, at: string, { key, ...given }: RunsCall = {}): Promise<Answer> {
    return bareCall(runUrl, at, { method, ...given, key: key ?? (await memberKey()) })
  }

  return {
    ...platform,
    runUrl,
    node,
    script: (slug, script) => void node.scripts.set(slug, script),
    writeNodes,
    memberKey,
    call,
    run: (slug, text, { fields = {}, ...given } = {}) =>
      call('POST', `/${slug}/run`, { body: { newMessage: message(text), ...fields }, ...given }),
    stream: async (at, given = {}) => readSse(`${runUrl}${at}`, { key: await memberKey(), ...given }),
    async close() {
      await platform.close()
      await node.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export function message(text: string) {
  return { role: 'user', parts: [{ text }] }
}

/** The texts of an answer's events, as `AUTHOR: text`. */
export function talkOf({ json }: Pick<Answer, 'json'>): string[] {
  return (json as unknown as TextEvent[]).map(lineOf)
}

export interface TextEvent {
  author: string
  content?: { parts: { text?: string }[] }
}

export function lineOf({ author, content }: TextEvent): string {
  return `${author}: ${(content?.parts ?? []).map(({ text }) => text ?? '').join('')}`
}
