/**
 * The HTTP app under every service, with the platform's errors, request ids, limits and probes, and what all apps of a
 * process share.
 */

import type { IncomingMessage } from 'node:http'
import type { Span } from '@opentelemetry/api'
import fastify, { type FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { budgets } from '#lib/budgets.ts'
import { type Cached, createCached } from '#lib/cached.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import type { Tracing } from '../observe/tracing/tracing.ts'
import { createConnections } from './connections.ts'
import { answerClientError, answerUnreadableAddress, hasBody, registerErrors } from './errors.ts'
import { registerJsonBodies } from './json-parser.ts'
import { registerLoopbackGuard } from './loopback.ts'
import { createPage, type Page, sendPage } from './page.ts'
import type { ReferencePages } from './reference.ts'
import { registerAccessLog, registerRequestHeaders, requestIdOf } from './request-headers.ts'
import { createRowText, registerLargeAnswers } from './send-rows.ts'
import { registerServerSpans } from './server-spans.ts'
import { addressLimit, createStrangers } from './strangers.ts'
import { createValidator } from './validation.ts'

/** Rates of one address: far more than Prometheus asks for. */
const scrapeRates = [{ count: 100, windowMs: 1_000 }]

function registerProbes(
  app: FastifyInstance,
  options: { metrics: Registry; process: Pick<HttpProcess, 'metricsOf'>; ready?(): boolean },
): void {
  const hidden = { schema: { hide: true } as object }
  app.get('/livez', hidden, (_request, reply) => reply.send({ status: 'ok' }))
  app.get('/readyz', hidden, (_request, reply) => {
    const ready = options.ready?.() ?? true
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ok' : 'starting' })
  })
  app.get('/metrics', { ...hidden, onRequest: addressLimit(scrapeRates) }, async (request, reply) =>
    sendPage(request, reply, await options.process.metricsOf(options.metrics)),
  )
}

export { type ApiDescription, registerApiDescription } from './api-description.ts'
export { recordHeaders } from './request-headers.ts'

export interface HttpAppOptions {
  /** Name of the service: label of its metrics and field of its log lines. */
  name: string
  log: Logger
  metrics: Registry
  /** What all interfaces of the process share. Default: an own one. */
  process?: HttpProcess
  /**
   * Bound of bodies on routes without a credential. Default 16 KiB; behind a credential it is 1 MiB, and a route may set its own
   * `bodyLimit`.
   */
  bodyBytesMax?: number
  /** Bound of an address with its headers. Default 16 KiB. */
  headerBytesMax?: number
  /** CIDRs whose X-Forwarded-* headers count. Default none. */
  trustedProxies?: readonly string[]
  /** Asked by /readyz. Default: always ready. */
  ready?(): boolean
  /** True: peers, Hosts and Origins that are not of this machine are refused. */
  loopbackOnly?: boolean
  /** Absent: requests are no spans. */
  tracing?: Tracing | undefined
}

declare module 'fastify' {
  interface FastifyRequest {
    /** W3C trace context of this request: of its span, else as it came, or made here. */
    traceparent: string
    /** Null without tracing, and where the trace is not recorded. */
    span: Span | null
    /** Who is calling, once known; goes into the log line. */
    agentId: string | null
    /** Code of the problem that was answered; null when none was. */
    problemCode: string | null
  }
}

/**
 * Builds the app of one service; routes are added by its `routes`. Answers /livez, /readyz and /metrics by itself.
 * Bodies are JSON, never coerced; unknown keys are refused by schemas with `additionalProperties: false`; every fault is
 * an RFC 9457 problem document. Ask for `registerApiDescription` before the routes to have openapi.json and a reference.
 */
export function createHttpApp(options: HttpAppOptions): FastifyInstance {
  const app = fastify({
    logger: false,
    genReqId: requestIdOf as (raw: IncomingMessage) => string,
    bodyLimit: options.bodyBytesMax ?? budgets.http.strangerBodyBytesMax,
    trustProxy: options.trustedProxies?.length ? [...options.trustedProxies] : false,
    requestTimeout: 120_000,
    keepAliveTimeout: 72_000,
    return503OnClosing: false,
    clientErrorHandler: answerClientError,
    frameworkErrors: answerUnreadableAddress,
    http: {
      maxHeaderSize: options.headerBytesMax ?? budgets.http.headerBytesMax,
      headersTimeout: 20_000,
      connectionsCheckingInterval: 5_000,
    },
    routerOptions: { maxParamLength: 16_384 },
  }) as FastifyInstance
  const process = options.process ?? createHttpProcess(options)
  joinProcess(app, process)
  app.decorateRequest('traceparent', '')
  app.decorateRequest('span', null)
  app.decorateRequest('agentId', null)
  app.decorateRequest('problemCode', null)
  app.setValidatorCompiler(createValidator)
  // A start does not wait for the schemas of every route.
  app.setSerializerCompiler<object>(({ schema }) => createRowText(schema))
  registerDrain(app)
  registerRequestHeaders(app)
  if (options.tracing?.isOn) registerServerSpans(app, options.name, options.tracing)
  if (options.loopbackOnly) registerLoopbackGuard(app)
  registerErrors(app, options.log)
  registerJsonBodies(app)
  registerAccessLog(app, options)
  registerLargeAnswers(app)
  registerProbes(app, { ...options, process })
  return app
}

/** While the app closes: new requests are refused, connections without one are cut, those in flight finish. */
function registerDrain(app: FastifyInstance): void {
  let closing = false
  app.addHook('preClose', (done) => {
    closing = true
    const cutting = setInterval(() => app.server.closeIdleConnections(), 50)
    app.server.once('close', () => clearInterval(cutting))
    cutting.unref()
    done()
  })
  app.addHook('onRequest', (_request, reply, done) => {
    if (!closing) return done()
    reply.header('connection', 'close')
    done(new AppError('shutting_down', 'The service is stopping; try again in a second.', { retryAfter: 1 }))
  })
}

export type HttpProcess = ReturnType<typeof createHttpProcess>

declare module 'fastify' {
  interface FastifyInstance {
    /** What the interfaces of this process share. */
    process: HttpProcess
  }
}

const metricsKeptMs = 1_000

export function createHttpProcess({ trustedProxies = [] }: { trustedProxies?: readonly string[] } = {}) {
  const metrics = new Map<Registry, Cached<Page>>()
  return {
    connections: createConnections({ strangers: createStrangers(), trustedProxies }),
    /** The page of a registry, read at most once a second however many ask. Throws AppError `overloaded` when it takes too long. */
    metricsOf(registry: Registry): Promise<Page> {
      const known = metrics.get(registry) ?? readAtMostOnceASecond(registry)
      metrics.set(registry, known)
      return known.get()
    },
    /** Where people find the console, once it is known; undefined where another process has it and nothing names it. */
    consoleUrl: undefined as string | undefined,
    /** Pages of the reference, made so far. */
    reference: new Map() as ReferencePages,
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
function joinProcess(app: FastifyInstance, process: HttpProcess): void {
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
