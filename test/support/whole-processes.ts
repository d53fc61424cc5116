/** The processes of the whole platform, each of which is killed, paused, stopped and started again in its place. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../scripts/servers/children.ts'
import { createProcesses, type Processes, type ServiceProcess, untilReady } from './distributed-process.ts'

/** A place for a process: its name, home and port stay the same over its restarts. */
export interface Place {
  name: string
  /** How many processes it has had: requests of one process are never behind its later ones. */
  incarnation(): string
  /** Empty where no gateway runs. */
  vectorUrl: string
  kill9(): Promise<void>
  /** SIGTERM, and kill -9 when that takes too long. */
  stop(): Promise<void>
  pause(): void
  resume(): void
  /** Starts a new process; resolves when it is ready. */
  start(): Promise<void>
  output(): string
}

export interface WholeProcesses {
  places: Place[]
  gateways: Place[]
  /** Runs a command and gives its JSON document; throws with its output. */
  command<T>(...args: string[]): Promise<T>
  close(): Promise<void>
}

const servicesApart = [
  'vector-gateway',
  'vector-gateway',
  'vector-writer',
  'vector-writer',
  'relational-writer',
  'relational-writer',
  'audit-writer',
  'outbox-publisher',
]
/** Ten seconds are promised, on a machine that has nothing else to do. */
const stopMsMax = 30_000
const readyMsMax = 300_000
const startAgainMs = 500

/** Starts all at once: apart, or (`together`) all services in one process. */
export async function startWholeProcesses(
  env: Record<string, string>,
  together: boolean,
): Promise<WholeProcesses> {
  const processes = createProcesses({ ...env, LOG_LEVEL: 'warn' })
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const close = async () => {
    await processes.close()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const names = together ? [''] : servicesApart
    const places: Place[] = []
    for (const [n, name] of names.entries()) {
      const more = { VECTOR_GATEWAY_PORT: String(await freePort()), FLOTILLA_HOME: join(folder, String(n)) }
      places.push(createPlace(processes, name, n, more))
    }
    await Promise.all(places.map((place) => place.start()))
    return {
      places,
      gateways: places.filter(({ vectorUrl }) => vectorUrl !== ''),
      command: (...args) => processes.run(args, together ? join(folder, '0') : undefined),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function createPlace(processes: Processes, service: string, n: number, more: Record<string, string>): Place {
  const name = `${service || 'platform'}-${n}`
  const home = more.FLOTILLA_HOME as string
  const gateway = service === '' || service === 'vector-gateway'
  let one: ServiceProcess
  let started = 0
  return {
    name,
    incarnation: () => `${name}.${started}`,
    vectorUrl: gateway ? `http://127.0.0.1:${more.VECTOR_GATEWAY_PORT}` : '',
    async kill9() {
      one.child.kill('SIGKILL')
      await one.finished
    },
    async stop() {
      const { child, finished } = one
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), stopMsMax)
      await finished
      clearTimeout(late)
    },
    pause: () => void one.child.kill('SIGSTOP'),
    resume: () => void one.child.kill('SIGCONT'),
    async start() {
      started += 1
      const names = service === '' ? [] : [service]
      const end = Date.now() + readyMsMax
      for (;;) {
        one = processes.spawn(names, { home, more })
        try {
          return await untilReady(one, names, readyMsMax)
        } catch (error) {
          // A command that began while no platform ran has the data directory: as a service manager does, try again.
          if (!one.output().includes('data_directory_in_use') || Date.now() > end) throw error
          await sleep(startAgainMs)
        }
      }
    },
    output: () => one.output(),
  }
}
