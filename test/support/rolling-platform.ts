/**
 * A platform whose instances are replaced one after the other by another version: two processes with the HTTP
 * services, two with workers, on one set of engines.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../scripts/servers/children.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { openRegistry } from '../../scripts/servers/registry.ts'
import { createProcesses, type Processes, type ServiceProcess } from './distributed-process.ts'
import { openOwnQdrant } from './distributed-qdrant.ts'
import { openFakeQdrant } from './qdrant-fake.ts'
import type { Version } from './rolling-version.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from './scripted-node.ts'
import { newSecretKeyVariable } from './secret-key.ts'
import { databaseUrl } from './servers.ts'
import { openWebhookSink, type WebhookSink } from './webhook-sink.ts'

const workers = [
  ...['vector-writer', 'relational-writer', 'audit-writer', 'note-indexer', 'outbox-publisher'],
  ...['webhook-courier', 'run-dispatcher'],
]
const fronts = ['vector-gateway', 'main-api', 'hub', 'run-gateway', 'webhook-relay']

/** Where an instance listens, whatever its version. */
export interface Addresses {
  vectorUrl: string
  baseUrl: string
  hubUrl: string
  runUrl: string
  webhookUrl: string
}

/** A place for an instance: ports and data directory stay the same. */
export interface Instance extends Addresses {
  name: string
  /** The version that runs there. */
  version: string
  /** SIGTERM to what runs there, which must end with 0; then the other version, until it is ready. */
  replace(version: Version): Promise<void>
}

export interface RollingPlatform {
  fronts: [Instance, Instance]
  workers: [Instance, Instance]
  node: ScriptedNode
  sink: WebhookSink
  /** Starts every instance as this version. */
  startAll(version: Version): Promise<void>
  /** Runs a command of a version with --json and gives its document. */
  command<T>(version: Version, ...args: string[]): Promise<T>
  /** Faults in the logs of instances, and unexpected ends. */
  faults(): string[]
  close(): Promise<void>
}

/** Targets of webhooks at the sink, by their path. */
export const targets = ['log', 'board'] as const

/** Its engines; no instance runs yet. */
export async function openRollingPlatform(): Promise<RollingPlatform> {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const closing: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
  const close = async () => {
    for (const one of closing.splice(0).reverse()) await one()
  }
  try {
    const [engines, node, sink] = await Promise.all([
      openEngines((one) => closing.push(one)),
      openScriptedNode({ whale: echoScript, axon: echoScript }),
      openWebhookSink(),
    ])
    closing.push(node.close.bind(node), sink.close.bind(sink))
    const env = { ...engines, LOG_LEVEL: 'warn', ...writeFiles(folder, node, sink) }
    const byVersion = new Map<string, Processes>()
    const processesOf = ({ name, command }: Version): Processes => {
      const made = byVersion.get(name) ?? createProcesses(env, command)
      if (!byVersion.has(name)) closing.push(made.close)
      byVersion.set(name, made)
      return made
    }
    const faults: string[] = []
    const place = async (name: string, services: string[]) => {
      const ports = await portsFor(join(folder, name))
      return new Place(name, services, ports, processesOf, faults)
    }
    const platform = {
      fronts: [await place('front-1', fronts), await place('front-2', fronts)] as [Place, Place],
      workers: [await place('workers-1', workers), await place('workers-2', workers)] as [Place, Place],
    }
    const places = [...platform.fronts, ...platform.workers]
    return {
      ...platform,
      node,
      sink,
      startAll: async (version) => {
        await Promise.all(places.map((one) => one.start(version)))
      },
      command: (version, ...args) => processesOf(version).run(args),
      faults: () => [...faults, ...places.flatMap((one) => one.faultsNow())],
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function openEngines(atEnd: (close: () => unknown) => void): Promise<Record<string, string>> {
  const openVectors = async () => {
    const own = await openOwnQdrant()
    if (own) return { url: own.url, close: own.kill9 }
    console.error('*** The points of the rolling upgrade lie in a FAKE Qdrant. ***\n')
    return openFakeQdrant()
  }
  const [kafka, registry, vectors] = await Promise.all([
    openKafkaCluster(1),
    // Both versions register with it, and nobody else does.
    openRegistry(),
    openVectors(),
  ])
  for (const engine of [kafka as KafkaCluster, registry, vectors]) atEnd(() => engine.close())
  return {
    KAFKA_BROKERS: kafka.brokers.join(','),
    SCHEMA_REGISTRY_URL: registry.url,
    DATABASE_URL: await databaseUrl(),
    QDRANT_URL: vectors.url,
    ...newSecretKeyVariable(),
  }
}

function writeFiles(folder: string, node: ScriptedNode, sink: WebhookSink): Record<string, string> {
  const write = (name: string, content: unknown) => {
    const path = join(folder, name)
    // JSON is YAML.
    writeFileSync(path, JSON.stringify(content))
    return path
  }
  const at = { url: node.url, concurrency: 50 }
  const entries = targets.map((name) => [
    name,
    { url: new URL(name, sink.url).href, events: ['task.completed'] },
  ])
  return {
    RUN_NODES_FILE: write('nodes.yaml', { nodes: { whale: at, axon: at } }),
    WEBHOOK_TARGETS_FILE: write('targets.yaml', { targets: Object.fromEntries(entries) }),
  }
}

type Ports = Addresses & { variables: Record<string, string> }

async function portsFor(home: string): Promise<Ports> {
  const [vectors, main, hub, runs, webhooks] = await Promise.all([1, 2, 3, 4, 5].map(() => freePort()))
  const at = (port?: number) => `http://127.0.0.1:${port}`
  return {
    vectorUrl: at(vectors),
    baseUrl: at(main),
    hubUrl: at(hub),
    runUrl: at(runs),
    webhookUrl: at(webhooks),
    variables: {
      FLOTILLA_HOME: home,
      VECTOR_GATEWAY_PORT: String(vectors),
      MAIN_API_PORT: String(main),
      HUB_PORT: String(hub),
      RUN_GATEWAY_PORT: String(runs),
      WEBHOOK_GATEWAY: `127.0.0.1:${webhooks}`,
    },
  }
}

class Place implements Instance {
  readonly name: string
  readonly vectorUrl: string
  readonly baseUrl: string
  readonly hubUrl: string
  readonly runUrl: string
  readonly webhookUrl: string
  version = ''
  readonly #services: string[]
  readonly #variables: Record<string, string>
  readonly #processesOf: (version: Version) => Processes
  readonly #faults: string[]
  #process: ServiceProcess | undefined

  constructor(
    name: string,
    services: string[],
    { variables, ...addresses }: Ports,
    processesOf: (version: Version) => Processes,
    faults: string[],
  ) {
    this.name = name
    this.vectorUrl = addresses.vectorUrl
    this.baseUrl = addresses.baseUrl
    this.hubUrl = addresses.hubUrl
    this.runUrl = addresses.runUrl
    this.webhookUrl = addresses.webhookUrl
    this.#services = services
    this.#variables = variables
    this.#processesOf = processesOf
    this.#faults = faults
  }

  async start(version: Version): Promise<void> {
    const home = this.#variables.FLOTILLA_HOME as string
    this.version = version.name
    this.#process = await this.#processesOf(version).start(this.#services, { home, more: this.#variables })
  }

  async replace(version: Version): Promise<void> {
    const { child, finished } = this.#process!
    this.#faults.push(...this.faultsNow())
    const before = this.#process!.output().length
    child.kill('SIGTERM')
    const code = await finished
    const said = this.#process!.output().slice(before)
    if (code !== 0) this.#faults.push(`${this.name} (${this.version}) ended with ${code}: ${said}`)
    this.#faults.push(...errorsIn(said).map((line) => `${this.name} (${this.version}): ${line}`))
    this.#process = undefined
    await this.start(version)
  }

  faultsNow(): string[] {
    const one = this.#process
    if (!one) return []
    const { exitCode, signalCode } = one.child
    const ended = exitCode !== null || signalCode !== null
    return [
      ...(ended ? [`${this.name} (${this.version}) ended by itself: ${exitCode ?? signalCode}`] : []),
      ...errorsIn(one.output()).map((line) => `${this.name} (${this.version}): ${line}`),
    ]
  }
}

/** Lines of the levels error and fatal, but for those of a limit of time: a busy machine is no fault of a version. */
function errorsIn(output: string): string[] {
  return output
    .split('\n')
    .filter(
      (line) => /"level":[56]0/.test(line) && !/timeout|aborted|unavailable|did not close within/i.test(line),
    )
}
