/** Strangers, viewers and members at their worst, while an ordinary caller works: what the others notice of it. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '#client/client.ts'
import { heldBytes } from '#lib/budgets.ts'
import { openNodeServer } from '#services/runs/reference-node/node-server.ts'
import type { NodeAgent } from '#services/runs/reference-node/roster.ts'
import { type Bench, type BenchRow, quantile } from './bench.ts'
import { type Forked, openForked } from './forked.ts'
import { createPointSource } from './points.ts'
import { type Attack, type AttackHandlers, attackNames, type Means } from './pressure/attacks.ts'
import type { PlatformHandlers } from './pressure/platform.ts'
import { ownResidentBytes } from './processor-time.ts'

const mebibyte = 1024 * 1024
const largeNotes = 300
const noteBytes = 250_000
const viewers = 10
const quietMs = 20_000
const attackMs = 20_000
/** Between two attacks: what the one before left has gone. */
const restMs = 8_000
const slowRunMs = 4_000
const p95Max = 3
const memoryMax = 1.3

export const pressureBench: Bench = {
  name: 'pressure',
  purpose:
    'an ordinary caller (notes, lists, searches, runs) while strangers, viewers or a member ask for as much as they can get, compared with quiet; and the memory that this takes, compared with the sum of the documented budgets',
  options: { only: `one of ${attackNames.join(', ')}` },
  async run(report, { only } = {}) {
    const stage = await openStage(report)
    try {
      const rows: BenchRow[] = []
      await stage.work(quietMs / 2)
      const quiet = await stage.work(quietMs)
      for (const attack of attackNames) {
        if (only !== undefined && only !== attack) continue
        const pressed = await stage.under(attack)
        report(`  ${attack}: p95 ${pressed.p95.toFixed(1)} ms, quiet ${quiet.p95.toFixed(1)} ms`)
        report(`  memory ${mebibytes(quiet.peak)} MiB, then ${mebibytes(pressed.peak)} MiB`)
        rows.push(...rowsOf(attack, quiet, pressed))
      }
      return rows
    } finally {
      await stage.close()
    }
  },
}

interface Worked {
  p95: number
  /** Greatest RSS. */
  peak: number
}

const words: Record<Attack, string> = {
  headers: '600 unfinished headers',
  bodies: '600 unfinished bodies',
  connections: '4,000 connections of one address',
  pages: 'five pages of large notes at once',
  readers: '100 readers of hub.records',
  reference: 'eight strangers at the reference page',
  runs: '60 queued runs of a member',
}

function rowsOf(attack: Attack, quiet: Worked, pressed: Worked): BenchRow[] {
  return [
    {
      what: `${words[attack]}: p95 of an ordinary caller`,
      unit: 'ms',
      measured: pressed.p95,
      peer: { what: 'quiet', value: quiet.p95 },
      bar: { max: p95Max },
    },
    {
      what: `${words[attack]}: memory beyond quiet`,
      unit: 'MiB',
      measured: Math.max(0, pressed.peak - quiet.peak) / mebibyte,
      peer: { what: 'sum of the budgets', value: sumOfBudgets() / mebibyte },
      bar: { max: memoryMax },
    },
  ]
}

/** The budgets of the services that run here in one process; a budget that every process has counts once. */
function sumOfBudgets(): number {
  const held = Object.values(heldBytes)
  const names = new Set(held.flatMap((of) => Object.keys(of)))
  return [...names]
    .map((name) => {
      const each = held.flatMap((of) => of[name] ?? [])
      return each.length === held.length ? each[0]! : each.reduce((sum, bytes) => sum + bytes, 0)
    })
    .reduce((sum, bytes) => sum + bytes, 0)
}

const mebibytes = (bytes: number) => Math.round(bytes / mebibyte)

async function openStage(report: (text: string) => void) {
  const home = mkdtempSync(join(tmpdir(), 'fl-pressure-'))
  const agents = new Map([
    ['slow', delayed(slowRunMs)],
    ['quick', delayed(10)],
  ])
  const node = await openNodeServer({ agents, host: '127.0.0.1', port: 0, token: undefined, onFault() {} })
  const nodesFile = join(home, 'nodes.yaml')
  const at = { url: node.url, concurrency: 4 }
  writeFileSync(nodesFile, JSON.stringify({ nodes: { slow: at, quick: at } }))
  const platform = openForked<PlatformHandlers>(new URL('./pressure/platform.ts', import.meta.url), [
    home,
    nodesFile,
  ])
  const attackers = openForked<AttackHandlers>(new URL('./pressure/attacks.ts', import.meta.url))
  const close = async () => {
    await attackers.close()
    await platform.close()
    await node.close()
    rmSync(home, { recursive: true, force: true })
  }
  try {
    const urls = await platform.call('addresses', undefined as never)
    const means = await meansOf(platform, urls as Record<string, string>)
    const ordinary = await gatewayKey(platform, means.urls, { agentId: 'ordinary', access: 'member' })
    await writeNotes(means, report)
    const work = (ms: number) => workAs(ordinary, means.urls, platform.pid, ms)
    return {
      work,
      close,
      async under(attack: Attack): Promise<Worked> {
        await attackers.call('begin', { attack, means })
        const worked = await work(attackMs)
        await attackers.call('end', undefined as never)
        await sleep(restMs)
        return worked
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

function delayed(ms: number): NodeAgent {
  return {
    description: '',
    async *answer() {
      await sleep(ms)
      yield { text: 'Done.' }
    },
  }
}

async function meansOf(platform: Forked<PlatformHandlers>, urls: Record<string, string>): Promise<Means> {
  const means: Means = { urls, viewers: [], member: '' }
  for (let n = 0; n < viewers; n++) {
    const agentId = `viewer-${n}`
    const { privateKeyFile, agentKey } = await platform.call('caller', { agentId, access: 'viewer' })
    means.viewers.push({
      key: await keyOf(urls, agentId, privateKeyFile),
      token: await tokenOf(urls, agentKey),
    })
  }
  means.member = await gatewayKey(platform, urls, { agentId: 'member', access: 'member' })
  return means
}

async function gatewayKey(
  platform: Forked<PlatformHandlers>,
  urls: Record<string, string>,
  caller: Parameters<PlatformHandlers['caller']>[0],
): Promise<string> {
  const { privateKeyFile } = await platform.call('caller', caller)
  return keyOf(urls, caller.agentId, privateKeyFile)
}

async function keyOf(urls: Record<string, string>, agentId: string, privateKeyFile: string): Promise<string> {
  const client = createClient({ vectorUrl: urls.vector_url!, agentId, privateKeyFile })
  try {
    return await client.apiKey()
  } finally {
    await client.close()
  }
}

async function tokenOf(urls: Record<string, string>, key: string): Promise<string> {
  const traded = (await ask('POST', `${urls.base_url}/api/v1/auth/agent`, {}, { key })) as {
    data: { customToken: string }
  }
  const exchange = `${urls.base_url}/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken`
  return ((await ask('POST', exchange, {}, { token: traded.data.customToken })) as { idToken: string })
    .idToken
}

/** As a member of the default tier may, who is asked to wait now and then. */
async function writeNotes({ urls, member }: Means, report: (text: string) => void): Promise<void> {
  const body = 'text '.repeat(noteBytes / 5)
  for (let n = 0; n < largeNotes; n++) {
    await ask('POST', `${urls.hub_url}/fleet_notes/`, bearer(member), { subject: `Large ${n}`, body }).catch(
      async () => {
        n--
        await sleep(500)
      },
    )
    if (n % 100 === 99) report(`  ${n + 1} notes of ${noteBytes / 1_000} kB`)
  }
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

async function ask(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: object,
): Promise<unknown> {
  const answer = await fetch(url, {
    method,
    headers: { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${url}: ${answer.status} ${text.slice(0, 300)}`)
  return JSON.parse(text)
}

/** One call after the other: what an agent does all day. The p95 of all of them, a call that fails is the worst one. */
async function workAs(
  key: string,
  urls: Record<string, string>,
  pid: number,
  forMs: number,
): Promise<Worked> {
  const source = createPointSource(3)
  const calls: (() => Promise<unknown>)[] = [
    () => ask('POST', `${urls.hub_url}/fleet_notes/`, bearer(key), { subject: 'Small', body: 'A line.' }),
    () => ask('GET', `${urls.hub_url}/goals/?limit=10`, bearer(key)),
    () => ask('GET', `${urls.agent_gateway_url}/runs?limit=10`, bearer(key)),
    () =>
      ask('POST', `${urls.vector_url}/v1/vectors/search`, bearer(key), {
        collection: 'posts',
        vector: source.vector(),
        limit: 5,
      }),
    () =>
      ask('POST', `${urls.agent_gateway_url}/quick/run`, bearer(key), {
        newMessage: { role: 'user', parts: [{ text: 'hello' }] },
      }),
  ]
  const took: number[] = []
  let peak = 0
  const until = performance.now() + forMs
  for (let n = 0; performance.now() < until; n++) {
    const begun = performance.now()
    const failed = await calls[n % calls.length]!().then(
      () => false,
      () => true,
    )
    took.push(failed ? Number.POSITIVE_INFINITY : performance.now() - begun)
    peak = Math.max(peak, ownResidentBytes(pid))
    await sleep(20)
  }
  return { p95: quantile(took, 0.95), peak }
}
