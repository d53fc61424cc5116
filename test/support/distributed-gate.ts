/** A TCP way to a server that can be cut (connections refused and broken) and mended on the same port. */

import { createServer, type Server, type Socket, connect as tcpConnect } from 'node:net'

export interface Gate {
  /** The target's URL with this way's port. */
  url: string
  /** As if the server had died: open connections break, new ones are refused. */
  cut(): void
  /** Does nothing while it is not cut. */
  mend(): Promise<void>
}

/** Close it with `cut`. */
export async function openGate(target: string): Promise<Gate> {
  const { hostname, port: targetPort } = new URL(target)
  const sockets = new Set<Socket>()
  let server: Server | undefined
  let port = 0

  function join(incoming: Socket): void {
    const outgoing = tcpConnect(Number(targetPort), hostname)
    for (const [from, to] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  }
  const mend = async () => {
    if (server) return
    const opened = createServer(join)
    await new Promise<void>((resolve, reject) => {
      opened.once('error', reject)
      opened.listen(port, '127.0.0.1', resolve)
    })
    server = opened
    port = (opened.address() as { port: number }).port
  }

  await mend()
  const url = new URL(target)
  url.host = `127.0.0.1:${port}`
  return {
    url: url.href,
    mend,
    cut() {
      server?.close()
      server = undefined
      for (const socket of sockets) socket.destroy()
    },
  }
}
