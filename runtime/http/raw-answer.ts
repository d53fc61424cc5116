/** Answers on the bare socket, with a problem document: to bytes that are not HTTP, to slow requests, and to those that have to make room. */

import type { Socket } from 'node:net'
import { AppError } from '#lib/errors.ts'
import { newEventId } from '#lib/ids.ts'
import { linger } from './linger.ts'
import { problemContentType, problemOf } from './problem.ts'
import { nosniff } from './request-headers.ts'

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
