/** Two whole platforms on the same servers, as an operator runs them for one to go on when the other cannot. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, createClient } from '#client/client.ts'
import { createProcesses, type ServiceProcess } from '../distributed-process.ts'
import { type SteppedClock, stepClockOf } from './clock.ts'

/** A process with all services. */
export interface FleetPlatform {
  name: string
  process: ServiceProcess
  /** Calls its interfaces once each, as an agent without limits. */
  client: Client
  /** Null where no libfaketime is. */
  clock: SteppedClock | null
}

export interface FleetPlatforms {
  platforms: FleetPlatform[]
  command<T>(...args: string[]): Promise<T>
  close(): Promise<void>
}

/** A client that waits longer has given up. */
const answerMsMax = 10_000
const names = ['a', 'b']

export async function startFleetPlatforms(
  env: Record<string, string>,
  files: { nodes: object; targets: object },
): Promise<FleetPlatforms> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const file = (name: string, content: object) => {
    writeFileSync(join(folder, name), JSON.stringify(content))
    return join(folder, name)
  }
  const processes = createProcesses({
    ...env,
    RUN_NODES_FILE: file('nodes.yaml', { nodes: files.nodes }),
    WEBHOOK_TARGETS_FILE: file('targets.yaml', { targets: files.targets }),
    LOG_LEVEL: 'warn',
  })
  const close = async () => {
    await processes.close()
    rmSync(folder, { recursive: true, force: true })
  }
  async function start(name: string): Promise<FleetPlatform> {
    const clock = stepClockOf(join(folder, `clock-${name}`))
    const process = await processes.start([], { home: join(folder, name), more: clock?.env ?? {} })
    const volume = join(folder, `agent-${name}`)
    const args = ['agents', 'provision', '--agent-id', `agent-${name}`, '--tier', 'infra-architect']
    const agent = await processes.run<{ private_key_file: string }>([...args, '--volume', volume])
    const at = JSON.parse(readFileSync(join(process.home, 'run', 'addresses.json'), 'utf8'))
    const client = createClient({
      agentId: `agent-${name}`,
      privateKeyFile: agent.private_key_file,
      vectorUrl: at.vector_url,
      hubUrl: at.hub_url,
      runUrl: at.agent_gateway_url,
      webhookUrl: at.webhook_url,
      attemptsMax: 1,
      timeoutMs: answerMsMax,
    })
    return { name, process, client, clock }
  }
  try {
    const platforms = await Promise.all(names.map(start))
    return { platforms, command: (...args) => processes.run(args), close }
  } catch (error) {
    await close()
    throw error
  }
}
