/**
 * A TCP way to a server that can go silent: what clients send stays under way, without an answer or a reset, until a
 * test ends the silence. It knows no protocol.
 */

import { connect, createServer, type Socket } from 'node:net'
import { sleep } from '#lib/backoff.ts'
import { freePort } from '../../scripts/servers/children.ts'

export interface SilentProxy {
  port: number
  /** Open connections go silent; of `all`, also those that are made meanwhile. */
  silence(which: 'open' | 'all'): SilentTime
  close(): void
}

export interface SilentTime {
  /**
   * New connections work again. What the silent ones were sent is lost, or reaches the server a moment later, behind what
   * new ones send; then they end.
   */
  end(sent: 'arrives' | 'is lost'): Promise<void>
}

interface Pair {
  client: Socket
  server: Socket
  /** Bytes in flight on a silent connection. */
  held: Buffer[] | null
}

/** Between the end of a silence and the late bytes. */
const lateMs = 1_500
/** A server has taken what arrived when it answers nothing more for this long. */
const quietMs = 500

/** `port` is where it listens, a free one by default; `target` is the server's port at the time of each connection. */
export async function openSilentProxy(target: () => number, port?: number): Promise<SilentProxy> {
  const pairs = new Set<Pair>()
  let silent = false
  const listener = createServer((client) => {
    const pair: Pair = { client, server: connect(target(), '127.0.0.1'), held: silent ? [] : null }
    join(pairs, pair)
  })
  const own = port ?? (await freePort())
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject)
    listener.listen(own, '127.0.0.1', resolve)
  })
  return {
    port: own,
    silence(which) {
      silent = which === 'all'
      for (const pair of pairs) pair.held ??= []
      return {
        async end(sent) {
          silent = false
          const ended = [...pairs].filter(({ held }) => held !== null)
          if (sent === 'arrives') {
            await sleep(lateMs)
            await Promise.all(ended.map((pair) => arrive(pair, target())))
          }
          for (const pair of ended) end(pairs, pair)
        },
      }
    },
    close() {
      listener.close()
      for (const pair of pairs) end(pairs, pair)
    },
  }
}

function join(pairs: Set<Pair>, pair: Pair): void {
  const { client, server } = pair
  pairs.add(pair)
  client.on('data', (bytes) => {
    if (pair.held) pair.held.push(bytes)
    else server.write(bytes)
  })
  server.on('data', (bytes) => {
    if (!pair.held) client.write(bytes)
  })
  // A silent connection outlives its client: the bytes that it sent are still in flight.
  for (const socket of [client, server]) {
    socket.on('error', () => {})
    socket.on('close', () => {
      if (!pair.held) end(pairs, pair)
    })
  }
}

function end(pairs: Set<Pair>, pair: Pair): void {
  pairs.delete(pair)
  pair.client.destroy()
  pair.server.destroy()
}

/** Over a new connection where the server has closed the silent one: as a server that was slow would take it. */
function arrive(pair: Pair, port: number): Promise<void> {
  const { held } = pair
  if (pair.server.destroyed) pair.server = connect(port, '127.0.0.1').on('error', () => {})
  return new Promise((resolve) => {
    let quiet = setTimeout(resolve, quietMs)
    pair.server.on('data', () => {
      clearTimeout(quiet)
      quiet = setTimeout(resolve, quietMs)
    })
    for (const bytes of held ?? []) pair.server.write(bytes)
  })
}
