/**
 * Answers every fault with one problem document: of a request, and on the bare socket where there is none; what operators need
 * goes into the log. To close a socket with unread bytes resets it, and the answer is lost on the way: so a bounded rest is
 * read and dropped first.
 */

import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { budgets } from '#lib/budgets.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError, describeError, type ErrorCode } from '#lib/errors.ts'
import { newEventId } from '#lib/ids.ts'
import { problemContentType, problemOf, publicError } from './problem.ts'
import { nosniff } from './request-headers.ts'

const engineAway = 'http.engine-away'
const agentError = 'http.agent-error'
const timeout = 'http.timeout'

const names: Partial<Record<ErrorCode, string>> = {
  log_unavailable: engineAway,
  vector_engine_unavailable: engineAway,
  relational_engine_unavailable: engineAway,
  registry_unavailable: engineAway,
  embedder_unavailable: engineAway,
  identity_unavailable: engineAway,
  storage_unavailable: 'http.storage-unavailable',
  operation_failed: 'http.operation-failed',
  agent_error: agentError,
  too_many_events: agentError,
  node_lost: 'http.node-away',
  node_unavailable: 'http.node-away',
  query_timeout: timeout,
  run_timeout: timeout,
  input_expired: timeout,
  not_yet_applied: timeout,
  mirror_off: 'http.mirror-off',
  overloaded: 'http.overloaded',
  shutting_down: 'http.shutting-down',
}

export function faultLineOf({ code, statusCode }: { code: ErrorCode; statusCode: number }): string {
  return statusCode === 500 ? 'http.fault' : (names[code] ?? 'http.refused')
}

export function registerErrors(app: FastifyInstance, log: Logger): void {
  const methodsAt = createRouteTable(app)
  app.setErrorHandler((error, request, reply) => {
    const problem = problemFor(error, request)
    if (problem.statusCode >= 500) logFault(log, request, problem, error)
    answerProblem(reply, request, problem)
  })
  const answerNotFound = (request: FastifyRequest, reply: FastifyReply): void => {
    const allowed = methodsAt(request.url)
    const fault =
      allowed.length === 0
        ? new AppError('not_found', 'There is nothing at this address.')
        : new AppError('method_not_allowed', `Use ${allowed.join(' or ')} at this address.`)
    if (allowed.length > 0) reply.header('allow', allowed.join(', '))
    answerProblem(reply, request, fault)
  }
  app.setNotFoundHandler(answerNotFound)
  // Before its body, which nobody wants, is read.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404 && hasBody(request.raw)) answerNotFound(request, reply)
    else done()
  })
}

/** Answers addresses that the router cannot read: they never become a request that hooks see. */
export function answerUnreadableAddress(error: Error, request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ ...nosniff, 'x-request-id': request.id })
  answerProblem(reply, request, publicError(error))
}

/** The fault that the caller of this request is answered. */
export function problemFor(error: unknown, request: FastifyRequest): AppError {
  if (!isMissingBody(error, request)) return publicError(error)
  return new AppError('invalid_json', 'The body is missing: send a JSON object.')
}

function answerProblem(reply: FastifyReply, request: FastifyRequest, error: AppError): void {
  request.problemCode = error.code
  if (error.retryAfter !== undefined) {
    reply.header('retry-after', String(Math.max(1, Math.ceil(error.retryAfter))))
  }
  if (error.statusCode === 401) reply.header('www-authenticate', 'Bearer')
  leaveBodyUnread(request, reply, error.statusCode === 413 || error.statusCode === 408)
  const problem = problemOf(error, request.id)
  const form = request.routeOptions.config?.problemForm
  if (form?.headersOf) reply.headers(form.headersOf(error))
  reply
    .code(form ? form.statusOf(error.code, error.statusCode) : error.statusCode)
    .type(form?.contentType ?? problemContentType)
    .send(JSON.stringify(form ? form.of(problem) : problem))
}

function isMissingBody(error: unknown, request: FastifyRequest): boolean {
  const context = (error as { validationContext?: string } | null)?.validationContext
  return context === 'body' && request.body === undefined
}

function logFault(log: Logger, request: FastifyRequest, problem: AppError, error: unknown): void {
  const line = {
    request_id: request.id,
    route: request.routeOptions.url,
    code: problem.code,
    fault: describeError(error),
    cause: describeCause(error),
  }
  const name = faultLineOf(problem)
  if (problem.statusCode === 500) log.error({ ...line, stack: stackOf(error) }, name)
  else log.warn(line, name)
}

function describeCause(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined
  return cause === undefined ? undefined : describeError(cause)
}

function stackOf(error: unknown): string | undefined {
  return error instanceof Error ? error.stack?.split('\n').slice(1, 8).join('\n') : undefined
}

/** Watches the routes of an app and its children; the result names the methods of a request's address, for 405. */
function createRouteTable(app: FastifyInstance): (url: string) => string[] {
  const routes = new Map<string, { pattern: RegExp; methods: Set<string> }>()
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set<string>() }
    routes.set(url, route)
    for (const name of Array.isArray(method) ? method : [method]) route.methods.add(name)
  })
  return (url) => {
    const end = url.indexOf('?')
    const path = end < 0 ? url : url.slice(0, end)
    const methods = new Set<string>()
    for (const route of routes.values()) {
      if (route.pattern.test(path)) for (const name of route.methods) methods.add(name)
    }
    return [...methods].sort()
  }
}

function patternOf(url: string): RegExp {
  const escaped = url.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
  // Two colons are one that is no name of a parameter.
  const named = escaped.replace(/::|:[A-Za-z_]+/g, (part) => (part === '::' ? ':' : '[^/]+'))
  return new RegExp(`^${named.replace(/\*/g, '.*')}$`)
}

/** Not by import: see runtime/start/control.ts. */
const { STATUS_CODES } = process.getBuiltinModule('node:http')

const faults: Record<string, AppError> = {
  HPE_HEADER_OVERFLOW: new AppError('bad_request', 'The address and headers are too long.', {
    statusCode: 431,
  }),
  ERR_HTTP_REQUEST_TIMEOUT: new AppError('bad_request', 'The request took too long to arrive.', {
    statusCode: 408,
  }),
}
const malformed = new AppError('bad_request', 'The request is not valid HTTP.')

export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  answerRaw(socket, faults[error.code ?? ''] ?? malformed)
}

/** Writes the answer of a fault and ends the connection. Nothing of another answer may be written yet. */
export function answerRaw(socket: Socket, fault: AppError): void {
  const body = JSON.stringify(problemOf(fault, newEventId()))
  const sniffing = Object.entries(nosniff).map(([name, value]) => `${name}: ${value}\r\n`)
  const wait = fault.retryAfter === undefined ? '' : `Retry-After: ${Math.ceil(fault.retryAfter)}\r\n`
  linger(
    socket,
    `HTTP/1.1 ${fault.statusCode} ${STATUS_CODES[fault.statusCode]}\r\n` +
      `Content-Type: ${problemContentType}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${sniffing.join('')}${wait}Connection: close\r\n\r\n${body}`,
  )
}

/** Whether the request announces a body. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/**
 * Call it before a refusal is sent. A short rest of the body is dropped and the connection goes on; with a longer one,
 * or with `closing`, the answer says `Connection: close` and the connection lingers.
 */
function leaveBodyUnread(request: FastifyRequest, reply: FastifyReply, closing: boolean): void {
  const { raw } = request
  if (raw.complete || !hasBody(raw)) return
  const announced = Number(raw.headers['content-length'] ?? Number.POSITIVE_INFINITY)
  const goesOn =
    !closing &&
    announced <= budgets.http.droppedBytesMax &&
    reply.raw.shouldKeepAlive &&
    reply.getHeader('connection') !== 'close' &&
    raw.headers.expect === undefined
  if (goesOn) return
  reply.header('connection', 'close')
  const { socket } = raw
  // Node calls this once the answer is written.
  if (socket instanceof Socket) socket.destroySoon = () => linger(socket)
}

/** Sends `last` and closes the writing side; reads on and drops the input, for a bounded while; then ends it. */
function linger(socket: Socket, last = ''): void {
  let dropped = 0
  // The HTTP parser lets go of the socket: further bytes are no request.
  socket.removeAllListeners('data')
  socket.on('data', (piece: Buffer) => {
    dropped += piece.length
    if (dropped > budgets.http.lingerBytesMax) socket.destroy()
  })
  const giveUp = setTimeout(() => socket.destroy(), deadlines.request.lingerMs)
  giveUp.unref()
  socket.once('end', () => socket.destroy())
  socket.once('close', () => clearTimeout(giveUp))
  socket.end(last)
  socket.resume()
}
