/**
 * A network between a log and one broker that counts the requests, and whose connections go silent: what is sent on them
 * gets no answer and no reset. New connections work, until all are refused an answer.
 */

import { connect, createServer, type Socket } from 'node:net'
import { freePort } from '../../scripts/servers/children.ts'
import { openKafkaCluster } from '../../scripts/servers/kafka.ts'

export interface WatchedKafka {
  brokers: string[]
  /** Open connections go silent: all, or those that have carried a request of this kind. Returns how many. */
  silence(which: 'all' | RequestKind): number
  /** While it is true, new connections are silent as well. */
  refuse(on: boolean): void
  /** Requests since the start. */
  requests(kind?: RequestKind): number
  close(): Promise<void>
}

/** Kafka's numbers of the requests. */
const kinds = { fetch: 1, listOffsets: 2, metadata: 3, heartbeat: 12 }
export type RequestKind = keyof typeof kinds

interface Pair {
  client: Socket
  broker: Socket
  seen: Set<number>
  silent: boolean
}

export async function openWatchedKafka(): Promise<WatchedKafka> {
  const pairs = new Set<Pair>()
  const counts = new Map<number, number>()
  let brokerPort = 0
  let refusing = false
  const server = createServer((client) => {
    const broker = connect(brokerPort, '127.0.0.1')
    const pair: Pair = { client, broker, seen: new Set(), silent: refusing }
    pairs.add(pair)
    const readKinds = createKindReader((kind) => {
      pair.seen.add(kind)
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
    })
    client.on('data', (bytes) => {
      readKinds(bytes)
      if (!pair.silent) broker.write(bytes)
    })
    broker.on('data', (bytes) => {
      if (!pair.silent) client.write(bytes)
    })
    const end = () => {
      client.destroy()
      broker.destroy()
      pairs.delete(pair)
    }
    client.on('close', end).on('error', () => {})
    broker.on('close', () => pair.silent || end()).on('error', () => {})
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const cluster = await openKafkaCluster(1, { advertisedPorts: [port] })
  brokerPort = Number(cluster.brokers[0]!.split(':')[1])
  return {
    brokers: [`127.0.0.1:${port}`],
    silence(which) {
      const chosen = [...pairs].filter(({ seen }) => which === 'all' || seen.has(kinds[which]))
      for (const pair of chosen) pair.silent = true
      return chosen.length
    },
    refuse(on) {
      refusing = on
    },
    requests: (kind) =>
      kind ? (counts.get(kinds[kind]) ?? 0) : [...counts.values()].reduce((sum, count) => sum + count, 0),
    async close() {
      server.close()
      for (const { client, broker } of pairs) {
        client.destroy()
        broker.destroy()
      }
      await cluster.close()
    },
  }
}

/** A request is its length in four bytes, its kind in two, and the rest. */
function createKindReader(onKind: (kind: number) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0)
  let skip = 0
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const skipped = Math.min(skip, rest.length)
      rest = rest.subarray(skipped)
      skip -= skipped
      if (skip > 0 || rest.length < 6) return
      onKind(rest.readInt16BE(4))
      skip = 4 + rest.readInt32BE(0)
    }
  }
}
