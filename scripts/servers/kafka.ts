/**
 * Starts Apache Kafka (KRaft, no container): one broker or three on free ports, each of which can be killed and
 * started again.
 */

import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, removeAtEnd, runCommand, type ServerChild, startChild, untilReady } from './children.ts'
import { installKafka } from './install.ts'

export interface KafkaCluster {
  /** `host:port` of every node. */
  brokers: string[]
  /** Brokers of a secured cluster without TLS and password, where everybody may do everything. */
  unsecured: string[]
  /** Node ids, from 1. */
  nodes: number[]
  /** The process of a node that runs. */
  pid(node: number): number
  /** What the brokers counted so far, by the name of the bean and its attribute, added up; needs `measured`. */
  counted(beans: string): Promise<Map<string, number>>
  /** kill -9, without leaving the cluster first. */
  kill9(node: number): Promise<void>
  /** SIGTERM: leaders move away first. */
  stop(node: number): Promise<void>
  /** Starts a stopped node on its old data and port; resolves when it serves. */
  start(node: number): Promise<void>
  /** Runs one of Kafka's own tools; resolves with what it prints. */
  tool(name: string, ...args: string[]): Promise<string>
  close(): Promise<void>
}

interface Node {
  id: number
  port: number
  controllerPort: number
  /** Addresses among the nodes, where clients come another way. */
  nodesPort?: number
  /** Where clients come through a proxy. */
  advertisedPort?: number
  /** The port of JMX. */
  measuresPort?: number
  folder: string
  /** Its log directory. */
  data: string
  child?: ServerChild
}

const clusterId = 'MkU3OEVBNTcwNTJENDM2Qk'
/** With one compiler a broker starts in half the time; one that serves long needs half the processor time with both. */
const smallJvm = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1']
/** As kafka-server-start.sh of Kafka 4 starts a broker. */
const productionJvm = [
  '-Xms1g',
  '-Xmx1g',
  '-XX:+UseG1GC',
  '-XX:MaxGCPauseMillis=20',
  '-XX:InitiatingHeapOccupancyPercent=35',
  '-XX:+ExplicitGCInvokesConcurrent',
]

export interface KafkaOptions {
  /** The log directory of a single node, kept at the end; one that an earlier broker left is taken as it is. */
  data?: string
  /** The log directory of each node. */
  dataOfNodes?: readonly string[]
  /** Ports that the nodes tell their clients instead of their own, where a test's proxies listen. */
  advertisedPorts?: number[]
  /** Sessions of members and brokers have Kafka's own limits (6 s at least, 9 s), not the short ones of tests. */
  ownLimits?: boolean
  /** Heap, collector and compiler of the brokers are those of production: for benches. */
  asInProduction?: boolean
  /** Brokers tell over JMX what they do. */
  measured?: boolean
  secured?: KafkaSecurity
}

/** Clients use TLS and SCRAM-SHA-512, and have the rights that access control lists give them. */
interface KafkaSecurity {
  /** PEM file with a private key and its certificate for `localhost`. */
  certificate: string
  /** Name → password. None has any right at first. */
  users: Record<string, string>
  /** PEM file of the authority whose certificates clients must show, too. */
  clientAuthority?: string
}

/** Formats and starts `count` nodes (1 or 3); replication is 1 or 3 with two in-sync replicas. */
export async function openKafkaCluster(count: 1 | 3, options: KafkaOptions = {}): Promise<KafkaCluster> {
  const { data, dataOfNodes, advertisedPorts } = options
  const { ownLimits = false, asInProduction = false, measured = false, secured } = options
  const classPath = `${await installKafka()}/*`
  const folder = mkdtempSync(join(tmpdir(), 'fl-kafka-'))
  removeAtEnd(folder)
  const logging = join(folder, 'log4j2.properties')
  writeFileSync(logging, loggingProperties)
  const nodes: Node[] = []
  for (let id = 1; id <= count; id++) {
    const own = join(folder, `node${id}`)
    mkdirSync(own)
    const [port, controllerPort] = [await freePort(), await freePort()]
    const logs = data ?? dataOfNodes?.[id - 1] ?? join(own, 'data')
    const node: Node = { id, port, controllerPort, folder: own, data: logs }
    const advertisedPort = advertisedPorts?.[id - 1]
    if (advertisedPort !== undefined) node.advertisedPort = advertisedPort
    if (advertisedPort !== undefined || secured) node.nodesPort = await freePort()
    if (measured) node.measuresPort = await freePort()
    nodes.push(node)
  }
  const java = (...args: string[]) => [`-Dlog4j2.configurationFile=${logging}`, '-cp', classPath, ...args]
  const runJava = (...args: string[]) =>
    runCommand('java', ['-Xmx128m', ...smallJvm, ...java(...args)], { timeoutMs: 60_000 })
  const tool = (name: string, ...args: string[]) => runJava(`org.apache.kafka.tools.${name}`, ...args)
  for (const node of nodes) writeFileSync(configOf(node), serverProperties(node, nodes, ownLimits, secured))
  const format = (node: Node) =>
    runJava('kafka.tools.StorageTool', 'format', '-t', clusterId, '-c', configOf(node), ...usersOf(secured))
  await Promise.all(nodes.filter(({ data }) => !existsSync(join(data, 'meta.properties'))).map(format))
  async function start(node: Node): Promise<void> {
    const small = ['-Xms128m', '-Xmx384m', ...smallJvm]
    const jvm = asInProduction ? productionJvm : small
    const args = [...jvm, ...measuresOf(node), ...java('kafka.Kafka', configOf(node))]
    const child = startChild('java', args, { logFile: join(node.folder, 'server.log'), cwd: node.folder })
    node.child = child
    await untilReady(`Kafka node ${node.id}`, child, () => child.output().includes('Kafka Server started'))
  }
  const nodeOf = (id: number): Node => {
    const node = nodes.find((candidate) => candidate.id === id)
    if (!node) throw new Error(`no node ${id}`)
    return node
  }
  const close = async () => {
    await Promise.all(nodes.map((node) => node.child?.kill('SIGKILL')))
  }
  try {
    await Promise.all(nodes.map(start))
  } catch (error) {
    await close()
    throw error
  }
  return {
    brokers: nodes.map((node) => `${secured ? 'localhost' : '127.0.0.1'}:${node.port}`),
    unsecured: secured ? nodes.map((node) => `127.0.0.1:${node.nodesPort}`) : [],
    nodes: nodes.map((node) => node.id),
    pid: (id) => nodeOf(id).child!.pid,
    counted: (beans) => counted(nodes, beans, tool),
    kill9: async (id) => nodeOf(id).child?.kill('SIGKILL'),
    stop: async (id) => nodeOf(id).child?.kill('SIGTERM'),
    start: (id) => start(nodeOf(id)),
    tool,
    close,
  }
}

function measuresOf({ measuresPort }: Node): string[] {
  if (measuresPort === undefined) return []
  const own = {
    host: '127.0.0.1',
    port: measuresPort,
    'rmi.port': measuresPort,
    authenticate: false,
    ssl: false,
  }
  const options = Object.entries(own).map(
    ([name, value]) => `-Dcom.sun.management.jmxremote.${name}=${value}`,
  )
  return [...options, '-Djava.rmi.server.hostname=127.0.0.1']
}

async function counted(nodes: Node[], beans: string, tool: KafkaCluster['tool']) {
  const sums = new Map<string, number>()
  for (const { measuresPort } of nodes) {
    const url = `service:jmx:rmi:///jndi/rmi://127.0.0.1:${measuresPort}/jmxrmi`
    const asked = ['--jmx-url', url, '--object-name', beans, '--attributes', 'Count', '--one-time']
    const found = await tool('JmxTool', ...asked, '--report-format', 'properties')
    for (const [, name = '', count] of found.matchAll(/^(\S+):Count=(\d+)$/gm)) {
      sums.set(name, (sums.get(name) ?? 0) + Number(count))
    }
  }
  return sums
}

function configOf(node: Node): string {
  return join(node.folder, 'server.properties')
}

function serverProperties(node: Node, nodes: Node[], ownLimits: boolean, secured?: KafkaSecurity): string {
  const replicas = nodes.length
  const inSync = replicas === 3 ? 2 : 1
  const internal = ['transaction.state.log', 'share.coordinator.state.topic'].flatMap((topic) => [
    `${topic}.replication.factor=${replicas}`,
    `${topic}.min.isr=${inSync}`,
    `${topic}.num.partitions=4`,
  ])
  return [
    'process.roles=broker,controller',
    `node.id=${node.id}`,
    `controller.quorum.voters=${nodes.map((voter) => `${voter.id}@127.0.0.1:${voter.controllerPort}`).join(',')}`,
    ...(secured ? securedListeners(node, secured) : listeners(node)),
    'controller.listener.names=CONTROLLER',
    `log.dirs=${node.data}`,
    `default.replication.factor=${replicas}`,
    `min.insync.replicas=${inSync}`,
    `offsets.topic.replication.factor=${replicas}`,
    'offsets.topic.num.partitions=4',
    // Groups of a broker that was away for weeks go on where they were.
    'offsets.retention.minutes=2147483647',
    ...internal,
    'group.initial.rebalance.delay.ms=0',
    'auto.create.topics.enable=false',
    'num.network.threads=2',
    'num.io.threads=4',
    // Compaction is tested: look for work often, and with a small buffer.
    'log.cleaner.dedupe.buffer.size=2097152',
    'log.cleaner.backoff.ms=500',
    'log.retention.check.interval.ms=1000',
    'log.initial.task.delay.ms=500',
    'log.segment.delete.delay.ms=1000',
    ...(ownLimits ? [] : shortLimits),
    '',
  ].join('\n')
}

const shortLimits = [
  'group.min.session.timeout.ms=1000',
  // A killed broker is noticed after 3 s; the real default is 9 s.
  'broker.session.timeout.ms=3000',
  'broker.heartbeat.interval.ms=500',
]

function listeners({ port, controllerPort, nodesPort, advertisedPort }: Node): string[] {
  const nodes = nodesPort ? `,NODES://127.0.0.1:${nodesPort}` : ''
  return [
    `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}${nodes}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${advertisedPort ?? port}${nodes}`,
    'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,NODES:PLAINTEXT',
    `inter.broker.listener.name=${nodesPort ? 'NODES' : 'PLAINTEXT'}`,
  ]
}

/** Certificates are for names, so clients are sent to `localhost`. */
function securedListeners(
  { port, controllerPort, nodesPort }: Node,
  { certificate, clientAuthority }: KafkaSecurity,
): string[] {
  const nodes = `NODES://127.0.0.1:${nodesPort}`
  return [
    `listeners=CLIENTS://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort},${nodes}`,
    `advertised.listeners=CLIENTS://localhost:${port},${nodes}`,
    'listener.security.protocol.map=CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT,NODES:PLAINTEXT',
    'inter.broker.listener.name=NODES',
    'sasl.enabled.mechanisms=SCRAM-SHA-512',
    'listener.name.clients.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;',
    'ssl.keystore.type=PEM',
    `ssl.keystore.location=${certificate}`,
    ...(clientAuthority
      ? [
          'ssl.truststore.type=PEM',
          `ssl.truststore.location=${clientAuthority}`,
          // Brokers overlook it next to SASL unless it is said of the listener itself.
          'listener.name.clients.ssl.client.auth=required',
        ]
      : []),
    'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    // The nodes themselves, and the process that sets the rights.
    'super.users=User:ANONYMOUS',
  ]
}

function usersOf(secured?: KafkaSecurity): string[] {
  return Object.entries(secured?.users ?? {}).flatMap(([name, password]) => [
    '--add-scram',
    `SCRAM-SHA-512=[name=${name},password=${password}]`,
  ])
}

const loggingProperties = `status=error
rootLogger.level=warn
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=[%d] %p %m (%c)%n
logger.s.name=kafka.server.KafkaRaftServer
logger.s.level=info
`
