/**
 * A TCP way to a server that is slow, loses what it carries for a while, or is cut. Bytes arrive in their order and, as
 * TCP would have it, none is ever left out: what a silent way holds arrives when it is mended. It knows no protocol.
 */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { sleep } from '#lib/backoff.ts'

export interface Way {
  readonly port: number
  /** As if the server had died: open connections break, new ones are refused. */
  cut(): void
  /** Nothing passes, in either direction, also on connections that are made meanwhile. */
  silence(): void
  /** Everything comes this much later. */
  slow(delayMs: number): void
  /** A share of the data arrives as late as a network's second try, and a tenth of that breaks its connection. */
  lose(share: number): void
  /** As it was at first. */
  mend(): Promise<void>
  close(): void
}

const secondTryMs = 400

/** `target` is the server's port at the time of each connection. */
export async function openWay(target: () => number, port = 0): Promise<Way> {
  const way = new OpenWay(target, port)
  await way.mend()
  return way
}

class OpenWay implements Way {
  port: number
  readonly #target: () => number
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined
  #delayMs = 0
  #lost = 0
  /** Resolves at the end of a silence. */
  #passes: { promise: Promise<void>; resolve(): void } | undefined

  constructor(target: () => number, port: number) {
    this.#target = target
    this.port = port
  }

  cut(): void {
    this.#server?.close()
    this.#server = undefined
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  silence(): void {
    this.#passes ??= Promise.withResolvers<void>()
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs
  }

  lose(share: number): void {
    this.#lost = share
  }

  async mend(): Promise<void> {
    this.#delayMs = 0
    this.#lost = 0
    this.#passes?.resolve()
    this.#passes = undefined
    if (this.#server) return
    const server = createServer((client) => this.#join(client))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.port, '127.0.0.1', resolve)
    })
    this.#server = server
    this.port = (server.address() as { port: number }).port
  }

  close(): void {
    this.cut()
    this.#passes?.resolve()
  }

  #join(client: Socket): void {
    const server = connect(this.#target(), '127.0.0.1')
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
    }
    this.#carry(client, server)
    this.#carry(server, client)
  }

  /** One direction. What the sender does last, ending or breaking, comes behind its bytes. */
  #carry(from: Socket, to: Socket): void {
    let last: Promise<void> = Promise.resolve()
    const then = (work: () => void) => {
      const lost = Math.random() < this.#lost
      const dueAt = performance.now() + this.#delayMs + (lost ? secondTryMs : 0)
      last = last.then(async () => {
        while (this.#passes) await this.#passes.promise
        const waitMs = dueAt - performance.now()
        if (waitMs > 1) await sleep(waitMs)
        if (lost && Math.random() < 0.1) from.resetAndDestroy()
        if (!to.destroyed) work()
      })
    }
    from.on('data', (bytes) => then(() => void to.write(bytes)))
    from.on('end', () => then(() => void to.end()))
    from.on('close', () => then(() => void to.destroy()))
  }
}
