/**
 * The load generator of the bench `fleet`: 200 agents whose requests begin at times that nothing moves, so that slowness
 * shows as waiting and not as fewer requests. Latencies count from the moment at which a request should have left.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '#client/client.ts'
import { quantile } from '../bench.ts'
import { serveForked, sharedNow } from '../forked.ts'
import { createPointSource, createRandom } from '../points.ts'
import {
  type Addresses,
  type Agent,
  createFleet,
  type Fleet,
  RequestFault,
  send,
  upsertGroup,
} from './agents.ts'
import { type Kind, kinds, mix } from './mix.ts'
import { type CheckedPromises, checkPromises } from './promises.ts'

/** Different vectors of searches and points. */
const vectorCount = 400
/** Requests under way; one beyond it is not sent and counts as an error. */
const underWayMax = 2_000
const handshakesAtOnce = 8
const openingMsMax = 120_000
const openingTries = 10
/** Figures of one of these agree with those of another run. */
const seed = 41

export interface Opening {
  addresses: Addresses
  agents: { id: string; privateKeyPem: string }[]
  adminToken: string
}

export interface Load {
  /** Where the part of the load before this one ended. */
  fromSecond: number
  seconds: number
  perSecond: number
  /** This kind alone. */
  only?: Kind
}

/** Requests of one kind in one minute; latencies in ms of the requests that were answered well. */
interface MinuteOfKind {
  minute: number
  kind: Kind
  latencies: number[]
}

export interface LoadResult {
  minutes: MinuteOfKind[]
  /** Minute → kind and code, as `run: node_lost` → count. */
  errors: { minute: number; kind: Kind; code: string; count: number }[]
  /** Messages of the first faults. */
  samples: string[]
  requests: number
}

let fleet: Fleet | undefined
const random = createRandom(seed)
const result: LoadResult = { minutes: [], errors: [], samples: [], requests: 0 }
let recent: { kind: Kind; ms: number }[] = []
let recentErrors = 0

const handlers = {
  /** Each agent gets a gateway key and writes its points. */
  async open({ addresses, agents, adminToken }: Opening): Promise<void> {
    const source = createPointSource(seed)
    const vectors = Array.from({ length: vectorCount }, () => JSON.stringify(source.vector()))
    const keyed: { id: string; key: string }[] = []
    await inTurn(agents, async ({ id, privateKeyPem }) => {
      // Handshakes of one address are limited, and here all agents have the same one.
      const client = createClient({ ...addresses, agentId: id, privateKeyPem, waitOutLimitsMs: openingMsMax })
      keyed.push({ id, key: await repeated(client.apiKey) })
      await client.close()
    })
    keyed.sort((a, b) => a.id.localeCompare(b.id))
    const opened = createFleet(keyed, addresses, adminToken, vectors)
    fleet = opened
    await inTurn(opened.agents, async (agent) => {
      for (const group of agent.groups) await repeated(() => upsertGroup(opened, agent, group))
    })
  },
  /** A part of the load; resolves when its last request is answered. */
  async run(load: Load): Promise<void> {
    const opened = fleet!
    const begun = sharedNow()
    const underWay = new Set<Promise<void>>()
    for (let at = begun; ; ) {
      // Times between independent arrivals.
      at += (-Math.log(1 - random()) * 1_000) / load.perSecond
      const kind = kindOf(random(), load.only)
      const agent = opened.agents[Math.floor(random() * opened.agents.length)]!
      if (at > begun + load.seconds * 1_000) break
      const waitMs = at - sharedNow()
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
      const minute = Math.floor((load.fromSecond + (at - begun) / 1_000) / 60)
      result.requests += 1
      if (underWay.size >= underWayMax) {
        noteFault(minute, kind, new RequestFault('not_sent', `${underWayMax} requests are under way`))
        continue
      }
      const one: Promise<void> = measured(opened, { kind, agent, at, minute }).finally(() =>
        underWay.delete(one),
      )
      underWay.add(one)
    }
    await Promise.all(underWay)
  },
  /** Since the last time that it was asked. */
  progress(_: null) {
    const searches = recent.filter(({ kind }) => kind === 'search').map(({ ms }) => ms)
    const answer = {
      answered: recent.length,
      errors: recentErrors,
      p95: quantile(
        recent.map(({ ms }) => ms),
        0.95,
      ),
      searchP95: searches.length > 0 ? quantile(searches, 0.95) : 0,
    }
    recent = []
    recentErrors = 0
    return answer
  },
  result: (_: null): LoadResult => result,
  check: (_: null): Promise<CheckedPromises> => checkPromises(fleet!),
  /** Events that the receivers of webhooks must have got. */
  promised: (_: null) => ({ runs: fleet!.kept.runs.map(({ id }) => id), fired: fleet!.kept.fired }),
}

export type LoadCalls = typeof handlers

interface Due {
  kind: Kind
  agent: Agent
  at: number
  minute: number
}

async function measured(opened: Fleet, { kind, agent, at, minute }: Due): Promise<void> {
  try {
    await send(opened, kind, agent, at)
    const ms = sharedNow() - at
    recent.push({ kind, ms })
    let row = result.minutes.find((one) => one.minute === minute && one.kind === kind)
    if (!row) {
      row = { minute, kind, latencies: [] }
      result.minutes.push(row)
    }
    row.latencies.push(ms)
  } catch (error) {
    noteFault(minute, kind, error)
  }
}

function noteFault(minute: number, kind: Kind, error: unknown): void {
  recentErrors += 1
  const code = error instanceof RequestFault ? error.code : String(error)
  if (result.samples.length < 5) result.samples.push(`${kind}: ${error}`)
  const row = result.errors.find((one) => one.minute === minute && one.kind === kind && one.code === code)
  if (row) row.count += 1
  else result.errors.push({ minute, kind, code, count: 1 })
}

/** `share`: 0..1. */
function kindOf(share: number, only?: Kind): Kind {
  if (only) return only
  let left = share * 100
  for (const kind of kinds) {
    left -= mix[kind]
    if (left < 0) return kind
  }
  return 'search'
}

/** Nothing is measured yet: what a busy machine is late with is tried again. */
async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries === openingTries) throw error
      await pause(1_000)
    }
  }
}

async function inTurn<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < all.length) await work(all[next++]!)
  }
  await Promise.all(Array.from({ length: handshakesAtOnce }, worker))
}

serveForked(handlers, async () => {
  await Promise.all(Object.values(fleet?.pools ?? {}).map((pool) => pool.destroy()))
})
