/** The stage of the bench of runs: the platform on both kinds of engines, with an orchestrator that costs little. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type NodeServer, openNodeServer } from '#services/runs/reference-node/node-server.ts'
import type { NodeAgent } from '#services/runs/reference-node/roster.ts'
import { findQdrant } from '../scripts/servers/qdrant.ts'
import type { BenchRow } from './bench.ts'
import { openDistributedStage, provision } from './distributed-stage.ts'
import { keyOf, openPlatformStage } from './platform-stage.ts'

/** A caller may have ten runs open. */
const callers = 8

/** It gets a report of each run, as everywhere, and costs next to nothing. */
export function openOrchestrator(): Promise<NodeServer> {
  const axon: NodeAgent = {
    description: '',
    async *answer() {
      yield { text: 'Taken.' }
    },
  }
  const agents = new Map([['axon', axon]])
  return openNodeServer({ agents, host: '127.0.0.1', port: 0, token: undefined, onFault() {} })
}

export interface Gateway {
  url: string
  /** Keys of several agents without limits. */
  keys: string[]
}

export async function onEmbedded<T>(nodesFile: string, work: (gateway: Gateway) => Promise<T>): Promise<T> {
  const more = { RUN_NODES_FILE: nodesFile, BENCH_CALLERS: String(callers) }
  const stage = await openPlatformStage(['relational-writer'], more)
  try {
    const keys = stage.callers.map((one) => keyOf(stage, one.agentId, one.privateKeyFile))
    return await work({ url: stage.runUrl, keys: await Promise.all(keys) })
  } finally {
    await stage.close()
  }
}

/** No rows where no qdrant executable is on the PATH. */
export async function onDistributed(
  nodesFile: string,
  folder: string,
  report: (text: string) => void,
  work: (gateway: Gateway) => Promise<BenchRow[]>,
): Promise<BenchRow[]> {
  if (findQdrant() === null) return []
  const more = { RUN_NODES_FILE: nodesFile }
  const stage = await openDistributedStage(report, ['relational-writer', 'reference-nodes'], more)
  try {
    const { home, vectorUrl } = stage.platform
    const addresses = JSON.parse(readFileSync(join(home, 'run', 'addresses.json'), 'utf8'))
    const keys: string[] = []
    for (let n = 0; n < callers; n++) {
      const agentId = `caller-${n}`
      const file = await provision(stage.processes, join(folder, agentId), agentId)
      keys.push(await keyOf({ vectorUrl }, agentId, file))
    }
    return await work({ url: addresses.agent_gateway_url, keys })
  } finally {
    await stage.close()
  }
}
