/** The connections of a process, over all of its interfaces, and what arrives on them of requests without a caller. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import type { AppError } from '#lib/errors.ts'
import { createPlaces, type Place, type PlaceLimits } from './places.ts'
import { answerRaw } from './raw-answer.ts'
import type { Holding, Strangers } from './strangers.ts'

export interface Connections {
  /** Open ones. */
  readonly count: number
  /** A new one. Makes room, or closes it where nothing idle is left. */
  accept(socket: Socket): void
  /** Its request begins; the connection is idle again when the answer is over. */
  begin(request: IncomingMessage, response: ServerResponse): void
  /** The body of the request under way counts as a stranger's, with the bytes that it announces, until `bodyEnds`. */
  bodyBegins(socket: Socket, announcedBytes: number): void
  bodyEnds(socket: Socket): void
}

export interface ConnectionLimits extends PlaceLimits {
  /** A new connection that says nothing for so long is closed. */
  firstByteMs: number
  /** How often unfinished headers and bodies are measured. */
  lookMs: number
}

const usualLimits: ConnectionLimits = {
  connectionsMax: budgets.http.connectionsMax,
  addressConnectionsMax: budgets.http.addressConnectionsMax,
  firstByteMs: deadlines.request.firstByteMs,
  lookMs: 200,
}

/** Line ends between requests are no beginning of one. */
const lineEndsMax = 4

interface Connection extends Place {
  openedMs: number
  /** `bytesRead` of the socket when its last request was over; null before the first request. */
  mark: number | null
  /** The last request, until it is known to have arrived whole. */
  request: IncomingMessage | null
  response: ServerResponse | null
  /** Requests under way: more than one when they are pipelined. */
  running: number
  /** `bytesRead` when what it holds began. */
  heldFrom: number
  holding: Holding | null
}

interface ConnectionsOptions {
  strangers: Strangers
  /** CIDRs of proxies, which carry the connections of many. */
  trustedProxies?: readonly string[]
  limits?: ConnectionLimits
}

export function createConnections(options: ConnectionsOptions): Connections {
  const { strangers, trustedProxies = [], limits = usualLimits } = options
  let looking: NodeJS.Timeout | undefined
  const places = createPlaces<Connection>(limits, trustedProxies, {
    make: newConnection,
    freed(one) {
      endHolding(one)
      if (places.count > 0) return
      clearInterval(looking)
      looking = undefined
    },
  })

  function refuse(one: Connection, fault: AppError): void {
    places.wake(one)
    one.holding = null
    const { socket, response } = one
    // Bytes of another answer are on the way already, or the request was answered before its body came.
    if (response?.headersSent) socket.destroy()
    else answerRaw(socket, fault)
  }

  function hold(one: Connection, from: number, announcedBytes: number): void {
    endHolding(one)
    one.heldFrom = from
    one.holding = strangers.begin(announcedBytes, (fault) => refuse(one, fault))
    one.holding.arrived(one.socket.bytesRead - from)
  }

  function look(): void {
    const nowMs = performance.now()
    for (const one of places.all()) if (!one.socket.writableEnded) lookAt(one, nowMs)
  }

  function lookAt(one: Connection, nowMs: number): void {
    const { socket, request, running, holding } = one
    if (running === 0 && request?.complete) {
      // The rest of a body that was refused has arrived.
      endHolding(one)
      one.request = null
      one.response = null
      one.mark = socket.bytesRead
    } else if (holding) {
      holding.arrived(socket.bytesRead - one.heldFrom)
    } else if (running === 0) {
      const from = one.mark ?? 0
      if (socket.bytesRead - from > lineEndsMax) hold(one, from, 0)
      else if (one.mark === null && nowMs - one.openedMs >= limits.firstByteMs) socket.destroy()
    }
  }

  return {
    get count() {
      return places.count
    },
    accept(socket) {
      if (places.take(socket)) looking ??= setInterval(look, limits.lookMs).unref()
    },
    begin(request, response) {
      const one = places.of(request.socket)
      if (!one) return
      endHolding(one)
      one.request = request
      one.response = response
      if (one.running++ === 0) places.wake(one)
      response.once('close', () => {
        endHolding(one)
        if (--one.running > 0) return
        one.mark = one.socket.bytesRead
        if (request.complete) {
          one.request = null
          one.response = null
        }
        places.rest(one)
      })
    },
    bodyBegins(socket, announcedBytes) {
      const one = places.of(socket)
      if (one) hold(one, socket.bytesRead, announcedBytes)
    },
    bodyEnds(socket) {
      const one = places.of(socket)
      if (one) endHolding(one)
    },
  }
}

function newConnection(socket: Socket): Connection {
  return {
    socket,
    openedMs: performance.now(),
    mark: null,
    request: null,
    response: null,
    running: 0,
    heldFrom: 0,
    holding: null,
  }
}

function endHolding(one: Connection): void {
  one.holding?.end()
  one.holding = null
}
