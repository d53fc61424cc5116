/** What all HTTP interfaces of a process share, and what ties it to each of them. */

import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { budgets } from '#lib/budgets.ts'
import { type Cached, createCached } from '#lib/cached.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { type Connections, createConnections } from './connections.ts'
import { hasBody } from './linger.ts'
import { createPage, type Page } from './page.ts'
import type { ReferencePages } from './reference.ts'
import { createStrangers, type Strangers } from './strangers.ts'

export interface HttpProcess {
  strangers: Strangers
  connections: Connections
  /** The page of a registry, read at most once a second however many ask. Throws AppError `overloaded` when it takes too long. */
  metricsOf(registry: Registry): Promise<Page>
  /** Pages of the reference, made so far. */
  reference: ReferencePages
}

declare module 'fastify' {
  interface FastifyInstance {
    /** What the interfaces of this process share. */
    process: HttpProcess
  }
}

const metricsKeptMs = 1_000

export function createHttpProcess({
  trustedProxies = [],
}: {
  trustedProxies?: readonly string[]
} = {}): HttpProcess {
  const strangers = createStrangers()
  const metrics = new Map<Registry, Cached<Page>>()
  return {
    strangers,
    connections: createConnections({ strangers, trustedProxies }),
    metricsOf(registry) {
      const known = metrics.get(registry) ?? readAtMostOnceASecond(registry)
      metrics.set(registry, known)
      return known.get()
    },
    reference: new Map(),
  }
}

function readAtMostOnceASecond(registry: Registry): Cached<Page> {
  return createCached({
    keptMs: metricsKeptMs,
    timeoutMs: deadlines.request.observedMs,
    late: () => new AppError('overloaded', 'Reading the metrics takes too long.', { retryAfter: 1 }),
    read: async () => createPage(registry.contentType, await registry.metrics()),
  })
}

/** Counts the connections of `app`, and what arrives there of requests without a caller. */
export function joinProcess(app: FastifyInstance, process: HttpProcess): void {
  app.decorate('process', process)
  const { connections } = process
  const { server } = app
  /** Their senders wait for `100 Continue`: it is sent when the body is wanted. */
  const expecting = new WeakSet<IncomingMessage>()
  server.on('connection', connections.accept)
  server.prependListener('request', connections.begin)
  server.on('checkContinue', (request, response) => {
    expecting.add(request)
    server.emit('request', request, response)
  })
  app.addHook('preParsing', (request, reply, payload, done) => {
    const { raw } = request
    if (hasBody(raw)) {
      const { config, bodyLimit } = request.routeOptions
      const announced = Number(raw.headers['content-length'] ?? budgets.http.strangerBodyBytesMax)
      // A longer one is refused unread.
      if (announced <= bodyLimit) {
        if (!config.credential) connections.bodyBegins(raw.socket, announced)
        if (expecting.delete(raw)) reply.raw.writeContinue()
      }
    }
    done(null, payload)
  })
  app.addHook('preValidation', (request, _reply, done) => {
    if (hasBody(request.raw)) connections.bodyEnds(request.raw.socket)
    done()
  })
}
