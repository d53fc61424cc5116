/**
 * A network between a log and the brokers of a cluster that counts the requests, and whose connections go silent: what
 * was sent on them stays under way, without an answer or a reset, until a test lets it arrive. New connections work,
 * until all are refused an answer.
 */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from '../../scripts/servers/children.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'

/** Kafka's numbers of the requests. */
const kinds = { produce: 0, fetch: 1, listOffsets: 2, metadata: 3, heartbeat: 12 }
export type RequestKind = keyof typeof kinds

export interface ProxiedKafka {
  /** Where clients connect. */
  brokers: string[]
  cluster: KafkaCluster
  /** Open connections go silent: all, or those that have carried a request of this kind, `most` of them. */
  silence(which: 'all' | RequestKind, most?: number): Silence
  /** While it is true, new connections are silent as well. */
  refuse(on: boolean): void
  /** Connections that have carried a request of this kind, are open and not silent. */
  carrying(kind: RequestKind): number
  /** Requests since the start. */
  requests(): number
  /** Answers to requests of this kind since the start; of one of the brokers, counted from 0. */
  answers(kind: RequestKind, broker?: number): number
  close(): Promise<void>
}

export interface Silence {
  connections: number
  /** The clients see their connections reset; what they sent stays under way. */
  reset(): void
  /** Lets the held bytes through to the brokers. Resolves when the brokers have answered or closed. */
  arrive(): Promise<void>
}

interface Pair {
  client: Socket
  broker: Socket
  seen: Set<number>
  /** Bytes in flight on a silent connection. */
  held: Buffer[] | null
}

/** A broker has taken what arrived when it answers nothing more for this long. */
const quietMs = 500

export async function openProxiedKafka(count: 1 | 3): Promise<ProxiedKafka> {
  const pairs = new Set<Pair>()
  const targets: number[] = []
  const servers: Server[] = []
  const ports: number[] = []
  let refusing = false
  let requests = 0
  const answers: Record<string, number>[] = []
  for (let n = 0; n < count; n++) {
    const own: Record<string, number> = {}
    answers.push(own)
    const server = createServer((client) => {
      const broker = connect(targets[n]!, '127.0.0.1')
      const pair: Pair = { client, broker, seen: new Set(), held: refusing ? [] : null }
      join(pairs, pair, {
        request: () => requests++,
        answer(kind) {
          own[kind] = (own[kind] ?? 0) + 1
        },
      })
    })
    const port = await freePort()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    servers.push(server)
    ports.push(port)
  }
  const cluster: KafkaCluster = await openKafkaCluster(count, { advertisedPorts: ports })
  targets.push(...cluster.brokers.map((broker) => Number(broker.split(':')[1])))
  const open = (which: 'all' | RequestKind) =>
    [...pairs].filter(({ held, seen }) => held === null && (which === 'all' || seen.has(kinds[which])))
  return {
    brokers: ports.map((port) => `127.0.0.1:${port}`),
    cluster,
    silence(which, most = Number.POSITIVE_INFINITY) {
      const silent = open(which).slice(0, most)
      for (const pair of silent) pair.held = []
      return {
        connections: silent.length,
        reset() {
          for (const { client } of silent) client.destroy()
        },
        arrive: () => arrive(silent),
      }
    },
    refuse(on) {
      refusing = on
    },
    carrying: (kind) => open(kind).length,
    requests: () => requests,
    answers: (kind, broker) =>
      answers
        .filter((_, n) => broker === undefined || broker === n)
        .reduce((sum, own) => sum + (own[kinds[kind]] ?? 0), 0),
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

interface Listener {
  request(): void
  answer(kind: number): void
}

function join(pairs: Set<Pair>, pair: Pair, heard: Listener): void {
  const { client, broker, seen } = pair
  pairs.add(pair)
  const kindOf = new Map<number, number>()
  // Behind its length a request has its kind and the version of that in two bytes each, and its number in four.
  const readRequests = createHeadReader(8, (head) => {
    const kind = head.readInt16BE(0)
    seen.add(kind)
    kindOf.set(head.readInt32BE(4), kind)
    heard.request()
  })
  // Behind its length an answer has the number of its request.
  const readAnswers = createHeadReader(4, (head) => {
    const number = head.readInt32BE(0)
    const kind = kindOf.get(number)
    kindOf.delete(number)
    if (kind !== undefined) heard.answer(kind)
  })
  client.on('data', (bytes) => {
    readRequests(bytes)
    if (pair.held) pair.held.push(bytes)
    else broker.write(bytes)
  })
  broker.on('data', (bytes) => {
    if (pair.held) return
    readAnswers(bytes)
    client.write(bytes)
  })
  const end = (other: Socket) => () => {
    if (pair.held) return
    other.destroy()
    pairs.delete(pair)
  }
  client.on('close', end(broker)).on('error', () => {})
  broker.on('close', end(client)).on('error', () => {})
}

/** Gives the first bytes behind the length of each message. */
function createHeadReader(headBytes: number, onHead: (head: Buffer) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0)
  let skip = 0
  return (bytes) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const skipped = Math.min(skip, rest.length)
      rest = rest.subarray(skipped)
      skip -= skipped
      if (skip > 0 || rest.length < 4 + headBytes) return
      onHead(rest.subarray(4, 4 + headBytes))
      skip = 4 + rest.readInt32BE(0)
    }
  }
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
