/** Whether each target can be reached, for health: name resolution, connection and TLS, never a request. */

import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { sleep } from '#lib/backoff.ts'
import { createNameLookup } from '../targets/name-lookup.ts'
import type { WatchedTargets, WebhookTarget } from '../targets/targets-file.ts'

const everyMs = 15_000
const probeTimeoutMs = 2_000
const concurrentMax = 8

interface Probed {
  reachable: boolean
  tookMs: number
  atMs: number
}

export type Probes = ReturnType<typeof openProbes>

/** Rounds go on in the background; a target that is new is probed at once. */
export function openProbes(targets: Pick<WatchedTargets, 'current' | 'onChange'>) {
  const probed = new Map<string, Probed & { address: string; endedAt: number }>()
  const { lookup } = createNameLookup()
  const stop = new AbortController()
  let wake = new AbortController()
  targets.onChange(() => wake.abort())

  async function round(): Promise<void> {
    const now = targets.current().targets
    for (const name of probed.keys()) if (!now.has(name)) probed.delete(name)
    const due = [...now.values()].filter(({ name, url }) => {
      const last = probed.get(name)
      return (
        !last || last.address !== url.host || performance.now() - last.endedAt >= everyMs - probeTimeoutMs
      )
    })
    const workers = Array.from({ length: Math.min(concurrentMax, due.length) }, async () => {
      for (let target = due.shift(); target && !stop.signal.aborted; target = due.shift()) {
        const found = await probe(target, lookup, stop.signal)
        probed.set(target.name, { ...found, address: target.url.host, endedAt: performance.now() })
      }
    })
    await Promise.all(workers)
  }
  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      wake = new AbortController()
      await round()
      await sleep(everyMs, AbortSignal.any([stop.signal, wake.signal]))
    }
  }
  const running = run()
  return {
    /** Null before the first. */
    last: (target: string): Probed | null => probed.get(target) ?? null,
    async close(): Promise<void> {
      stop.abort()
      await running
    },
  }
}

/** Name resolution, connection and (https) TLS with a certificate that is trusted, within the limit. */
function probe(
  target: Pick<WebhookTarget, 'url'>,
  lookup: LookupFunction,
  stopped: AbortSignal,
): Promise<Probed> {
  const begun = performance.now()
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = open(target.url, lookup, () => resolve(true))
  socket.setTimeout(probeTimeoutMs)
  const failed = () => resolve(false)
  socket.once('error', failed).once('timeout', failed).once('close', failed)
  const limit = setTimeout(failed, probeTimeoutMs)
  stopped.addEventListener('abort', failed, { once: true })
  return promise.then((reachable) => {
    clearTimeout(limit)
    stopped.removeEventListener('abort', failed)
    // A late error of the socket without a listener would end the process.
    socket.on('error', () => {})
    socket.destroy()
    return { reachable, tookMs: performance.now() - begun, atMs: Date.now() }
  })
}

function open(url: URL, lookup: LookupFunction, reached: () => void): Socket {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const secure = url.protocol === 'https:'
  const port = Number(url.port) || (secure ? 443 : 80)
  if (!secure) return connectTcp({ host, port, lookup }, reached)
  return connectTls(
    { host, port, lookup, ...(isIP(host) ? {} : { servername: host }), ALPNProtocols: ['http/1.1'] },
    reached,
  )
}
