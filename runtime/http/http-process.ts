/** What all HTTP interfaces of a process share, and what ties it to each of them. */

import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { budgets } from '#lib/budgets.ts'
import { credentialOf } from './api/facts.ts'
import { type Connections, createConnections } from './connections.ts'
import { hasBody } from './linger.ts'
import { createStrangers, type Strangers } from './strangers.ts'

export interface HttpProcess {
  strangers: Strangers
  connections: Connections
}

export function createHttpProcess({ trustedProxies = [] }: { trustedProxies?: readonly string[] } = {}) {
  const strangers = createStrangers()
  return { strangers, connections: createConnections({ strangers, trustedProxies }) } satisfies HttpProcess
}

/** Counts the connections of `app`, and what arrives there of requests without a caller. */
export function joinProcess(app: FastifyInstance, { connections }: Pick<HttpProcess, 'connections'>): void {
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
        if (!credentialOf(config)) connections.bodyBegins(raw.socket, announced)
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
