/** The whole platform as separate processes on distributed engines, two of each service that may be two. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, createClient } from '#client/client.ts'
import { createProcesses, type Processes, type ServiceProcess } from './distributed-process.ts'
import { openStack, type Stack } from './distributed-servers.ts'

export interface DistributedPlatform {
  servers: Stack
  env: Record<string, string>
  processes: Processes
  gateways: [ServiceProcess, ServiceProcess]
  writers: [ServiceProcess, ServiceProcess]
  /** Every process once. */
  all: ServiceProcess[]
  /** False where no Qdrant is: one process runs all services, and is both gateways and both writers. */
  separate: boolean
  /** Runs a command in a further process and gives its JSON document. */
  command<T>(...args: string[]): Promise<T>
  /** Provisions an agent without limits by command; the file of its private key. */
  provision(agentId: string): Promise<string>
  clientOf(gateway: ServiceProcess, agentId: string, privateKeyFile: string): Client
  close(): Promise<void>
}

export async function openDistributedPlatform(): Promise<DistributedPlatform> {
  const servers = await openStack()
  const env = await servers.newEnvironment()
  const processes = createProcesses(env)
  const volumes = mkdtempSync(join(tmpdir(), 'fl-'))
  const close = async () => {
    await processes.close()
    await servers.close()
    rmSync(volumes, { recursive: true, force: true })
  }
  try {
    const separate = servers.qdrant !== null
    const all = separate ? await startSeparately(processes) : [await processes.start([])]
    const first = all[0] as ServiceProcess
    const command = <T>(...args: string[]) => processes.run<T>(args, separate ? undefined : first.home)
    return {
      servers,
      env,
      processes,
      separate,
      all,
      gateways: [first, all[1] ?? first],
      writers: [all[2] ?? first, all[3] ?? first],
      command,
      async provision(agentId) {
        const volume = join(volumes, agentId)
        const who = ['--agent-id', agentId, '--tier', 'infra-architect']
        const args = ['agents', 'provision', ...who, '--volume', volume]
        return (await command<{ private_key_file: string }>(...args)).private_key_file
      },
      clientOf: ({ vectorUrl }, agentId, privateKeyFile) =>
        createClient({ vectorUrl, agentId, privateKeyFile }),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** All at once: the first one makes tables and topics, the others wait for it. */
function startSeparately(processes: Processes): Promise<ServiceProcess[]> {
  const names = [
    'vector-gateway',
    'vector-gateway',
    'vector-writer',
    'vector-writer',
    'audit-writer',
    'outbox-publisher',
    'outbox-publisher',
    'relational-writer',
  ]
  return Promise.all(names.map((name) => processes.start([name])))
}
