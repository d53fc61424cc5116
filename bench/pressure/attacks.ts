/** A process of its own that asks for as much as it can get, in one way at a time. */

import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveForked } from '../forked.ts'

/** The means of an attack. */
export interface Means {
  /** Addresses of the interfaces, by their names. */
  urls: Record<string, string>
  /** Gateway keys and ID tokens of viewers. */
  viewers: { key: string; token: string }[]
  /** Gateway key of a member. */
  member: string
}

const headerConnections = 600
const bodyConnections = 600
const idleConnections = 4_000
const headerBytes = 960_000
const bodyBytes = 1_000_000
const pagesAtOnce = 5
const readersEach = 10
const queuedRuns = 60
const agentPath = '/slow/run'

let stopped = new AbortController()
const sockets = new Set<Socket>()

function open(url: string, first: string): Socket {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  sockets.add(socket)
  socket.on('error', () => {})
  socket.on('close', () => sockets.delete(socket))
  socket.on('data', () => {})
  socket.write(first)
  return socket
}

const every = (urls: Means['urls']) => [
  urls.base_url!,
  urls.hub_url!,
  urls.agent_gateway_url!,
  urls.vector_url!,
]

/** Sends requests without pause, and reads the answers. */
async function asking(
  url: string,
  headers: Record<string, string>,
  method = 'GET',
  body?: string,
): Promise<void> {
  while (!stopped.signal.aborted) {
    await new Promise<void>((resolve) => {
      const call = request(url, { method, headers, signal: stopped.signal }, (answer) => {
        answer.resume()
        answer.once('close', resolve)
      })
      call.once('error', () => resolve())
      call.end(body)
    })
    await sleep(1)
  }
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

const attacks = {
  /** Headers that never end, at every interface. */
  async headers({ urls }: Means) {
    for (let n = 0; n < headerConnections; n++) {
      const url = every(urls)[n % 4]!
      open(url, `GET / HTTP/1.1\r\nhost: a\r\nx-long: ${'a'.repeat(headerBytes)}`)
    }
  },
  /** Bodies that never end, half of them for addresses that do not exist. */
  async bodies({ urls }: Means) {
    for (let n = 0; n < bodyConnections; n++) {
      const path = n % 2 ? '/api/v1/auth/agent' : '/nowhere'
      const head = `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 1048576\r\n\r\n`
      open(n % 2 ? urls.base_url! : every(urls)[(n >> 1) % 4]!, head + 'a'.repeat(bodyBytes))
    }
  },
  async connections({ urls }: Means) {
    for (let n = 0; n < idleConnections; n++) open(urls.hub_url!, '')
  },
  /** Pages of the largest notes, five at once. */
  async pages({ urls, viewers }: Means) {
    const [viewer] = viewers
    for (let n = 0; n < pagesAtOnce; n++) {
      void asking(`${urls.hub_url}/fleet_notes/?limit=1000`, bearer(viewer!.key))
    }
  },
  /** A hundred readers of hub.records. */
  async readers({ urls, viewers }: Means) {
    const url = `${urls.base_url}/api/v1/log/topics/hub.records/records?from=beginning`
    for (const { token } of viewers) {
      const headers = { ...bearer(token), accept: 'text/event-stream' }
      for (let n = 0; n < readersEach; n++) void asking(url, headers)
    }
  },
  /** The page of reference, made for strangers again and again. */
  async reference({ urls }: Means) {
    for (let n = 0; n < 8; n++) {
      void asking(`${urls.base_url}/api/v1/reference/js/scalar.js`, { 'accept-encoding': 'gzip' })
    }
  },
  async runs({ urls, member }: Means) {
    const headers = { ...bearer(member), 'content-type': 'application/json', prefer: 'respond-async' }
    const body = JSON.stringify({ newMessage: { role: 'user', parts: [{ text: 'wait' }] } })
    for (let n = 0; n < queuedRuns; n++) {
      await fetch(`${urls.agent_gateway_url}${agentPath}`, { method: 'POST', headers, body }).then((answer) =>
        answer.arrayBuffer(),
      )
    }
  },
}
export type Attack = keyof typeof attacks
export const attackNames = Object.keys(attacks) as Attack[]

const handlers = {
  async begin({ attack, means }: { attack: Attack; means: Means }) {
    stopped = new AbortController()
    await attacks[attack](means)
  },
  async end() {
    stopped.abort()
    for (const socket of sockets) socket.destroy()
  },
}
export type AttackHandlers = typeof handlers
if (process.send) serveForked(handlers, async () => {})
