/**
 * A network between a log and the brokers of a cluster that goes silent: what was sent on connections that exist stays
 * under way, without a reset, until a test lets it arrive. New connections work at once.
 */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../../scripts/servers/children.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'

export interface ProxiedKafka {
  /** Where clients connect. */
  brokers: string[]
  /** Connections that exist go silent: all, or one that has carried a produce request. Returns what holds their bytes. */
  silence(which: 'all' | 'a writing one'): Silence
  /** Connections that have carried a produce request and are open. */
  writing(): number
  close(): Promise<void>
}

export interface Silence {
  connections: number
  /** The clients see their connections reset; what they sent stays under way. */
  reset(): void
  /** What clients sent meanwhile reaches the brokers now. Resolves when the brokers have answered or closed. */
  arrive(): Promise<void>
}

interface Pair {
  client: Socket
  broker: Socket
  wrote: boolean
  held: Buffer[] | null
}

const produceKey = 0
/** A broker has taken what arrived when it answers nothing more for this long. */
const quietMs = 500

export async function openProxiedKafka(count: 1 | 3): Promise<ProxiedKafka> {
  const pairs = new Set<Pair>()
  const targets: number[] = []
  const servers: Server[] = []
  const ports: number[] = []
  for (let n = 0; n < count; n++) {
    const server = createServer((client) => join(pairs, client, targets[n]!))
    const port = await freePort()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    servers.push(server)
    ports.push(port)
  }
  const cluster: KafkaCluster = await openKafkaCluster(count, { advertisedPorts: ports })
  targets.push(...cluster.brokers.map((broker) => Number(broker.split(':')[1])))
  return {
    brokers: ports.map((port) => `127.0.0.1:${port}`),
    writing: () => [...pairs].filter(({ wrote, held }) => wrote && held === null).length,
    silence(which) {
      const open = [...pairs].filter(({ held }) => held === null)
      const silent = which === 'all' ? open : open.filter(({ wrote }) => wrote).slice(0, 1)
      for (const pair of silent) pair.held = []
      return {
        connections: silent.length,
        reset() {
          for (const { client } of silent) client.destroy()
        },
        arrive: () => arrive(silent),
      }
    },
    async close() {
      for (const server of servers) server.close()
      for (const { client, broker } of pairs) {
        client.destroy()
        broker.destroy()
      }
      await cluster.close()
    },
  }
}

function join(pairs: Set<Pair>, client: Socket, port: number): void {
  const broker = connect(port, '127.0.0.1')
  const pair: Pair = { client, broker, wrote: false, held: null }
  pairs.add(pair)
  client.on('data', (bytes) => {
    if (bytes.length >= 6 && bytes.readInt16BE(4) === produceKey) pair.wrote = true
    if (pair.held) pair.held.push(bytes)
    else broker.write(bytes)
  })
  broker.on('data', (bytes) => {
    if (!pair.held) client.write(bytes)
  })
  const end = (other: Socket) => () => {
    if (pair.held) return
    other.destroy()
    pairs.delete(pair)
  }
  client.on('close', end(broker)).on('error', () => {})
  broker.on('close', end(client)).on('error', () => {})
}

async function arrive(silent: Pair[]): Promise<void> {
  await Promise.all(
    silent.map(
      ({ broker, held }) =>
        new Promise<void>((resolve) => {
          let quiet = setTimeout(resolve, quietMs)
          broker.on('data', () => {
            clearTimeout(quiet)
            quiet = setTimeout(resolve, quietMs)
          })
          for (const bytes of held ?? []) broker.write(bytes)
        }),
    ),
  )
}
