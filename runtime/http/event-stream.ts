/** Server-sent events: frames, heartbeats and a bounded buffer behind one answer. */

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { sleep } from '#lib/backoff.ts'
import { budgets } from '#lib/budgets.ts'
import { withoutSeparators } from '#lib/terminal-text.ts'

const heartbeatMs = 15_000
const bufferBytesMax = budgets.streams.bufferBytes
/** A reader that takes nothing for this long is gone. */
const stalledMs = 30_000
const lookMs = 1_000

export interface StreamEvent {
  /** Default: `message`. */
  event?: string
  id?: string
  data: unknown
}

/** JSON text of one line. */
export class Json {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export interface EventStreamOptions {
  heartbeatMs?: number
  stalledMs?: number
  /** The comment of heartbeats. Default: `heartbeat`. */
  heartbeat?: string
  /** Tells browsers how long they wait before they connect again. */
  retryMs?: number
}

export type EventStream = ReturnType<typeof openEventStream>

/** Begins an answer of events. It is flushed at once, so that the reader knows that the stream is open. */
export function openEventStream(reply: FastifyReply, options: EventStreamOptions = {}) {
  const { heartbeat = 'heartbeat', retryMs } = options
  const closed = new AbortController()
  let roomy = Promise.withResolvers<void>()
  let takenAt = performance.now()
  let marked: string | undefined
  const body = new Readable({
    highWaterMark: bufferBytesMax,
    read() {
      takenAt = performance.now()
      roomy.resolve()
      roomy = Promise.withResolvers()
    },
  })
  /** False while the reader is behind by a full buffer. Events sent then are kept all the same: wait, or leave them out. */
  const hasRoom = () => body.readableLength < bufferBytesMax
  const write = (text: string) => {
    if (!closed.signal.aborted) body.push(text)
  }
  const beating = setInterval(() => {
    if (!hasRoom()) return
    write(`: ${heartbeat}\n${marked === undefined ? '' : `id: ${marked}\n`}\n`)
  }, options.heartbeatMs ?? heartbeatMs)
  const watching = setInterval(() => {
    const stalled = !hasRoom() && performance.now() - takenAt > (options.stalledMs ?? stalledMs)
    // Nothing but cutting the connection reaches a reader that does not read.
    if (stalled) reply.raw.destroy()
  }, lookMs)
  const close = () => {
    clearInterval(beating)
    clearInterval(watching)
    closed.abort()
    roomy.resolve()
  }
  body.once('close', close)
  reply.raw.once('close', close)
  reply.header('content-type', 'text/event-stream; charset=utf-8')
  reply.header('cache-control', 'no-store')
  // Proxies that buffer would hold the events back.
  reply.header('x-accel-buffering', 'no')
  write(`: open\n${retryMs === undefined ? '' : `retry: ${retryMs}\n`}\n`)

  function send({ event, id, data }: StreamEvent): void {
    if (id !== undefined) marked = undefined
    const head = `${event === undefined ? '' : `event: ${event}\n`}${id === undefined ? '' : `id: ${id}\n`}`
    // JSON of one line: it has no line breaks of its own.
    const text = data instanceof Json ? data.text : JSON.stringify(data)
    write(`${head}data: ${withoutSeparators(text)}\n\n`)
  }

  return {
    /** The body of the answer: return it from the handler. */
    body,
    /** Aborts when the reader is gone, or the stream was ended. */
    closed: closed.signal,
    hasRoom,
    /** Resolves when there is room again, or the stream is closed. */
    async room(): Promise<void> {
      while (!hasRoom() && !closed.signal.aborted) {
        await Promise.race([roomy.promise, sleep(lookMs, closed.signal)])
      }
    },
    send,
    /** Tells the reader how far it has come, with the next heartbeat. */
    mark(id: string): void {
      marked = id
    },
    /** After a last event, if any. */
    end(last?: StreamEvent): void {
      if (closed.signal.aborted) return
      if (last) send(last)
      body.push(null)
      close()
    },
  }
}

/** As RFC 9110 (12.5.1) weighs: named, not with q=0, and not less than JSON. `*` asks for neither. */
export function acceptsEvents(accept: string | undefined): boolean {
  const weights = new Map((accept ?? '').split(',').map(weighed))
  const events = weights.get('text/event-stream') ?? 0
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0
  return events > 0 && events >= json
}

function weighed(range: string): [type: string, weight: number] {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
  const given = parameters.map((one) => /^q\s*=\s*(\d(?:\.\d*)?)$/.exec(one)?.[1]).find(Boolean)
  return [type, given === undefined ? 1 : Math.min(1, Number(given))]
}
