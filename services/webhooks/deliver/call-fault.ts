/** Names the fault of a call by a short code: the texts of undici, TLS and the resolver may hold addresses. */

import { NameFault } from '../targets/name-lookup.ts'
import type { CallFault } from './verdict.ts'

const connectCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'EHOSTDOWN',
  'ENETDOWN',
  'EACCES',
  'EPERM',
])
const timeoutCodes: ReadonlySet<string> = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT'])
const protocolCodes: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_OVERFLOW',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_RESPONSE',
])
const unsendableCodes: ReadonlySet<string> = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  'ERR_INVALID_CHAR',
])
/** The codes of OpenSSL for certificates have no common prefix. */
const tlsCodes = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO|INVALID_|HOSTNAME_)/

/** A fault of our own, thrown where the code is known. */
export class CallError extends Error {
  readonly fault: CallFault

  constructor(fault: CallFault) {
    super(fault)
    this.name = 'CallError'
    this.fault = fault
  }
}

export function callFaultOf(error: unknown): CallFault {
  if (error instanceof CallError || error instanceof NameFault) return error.fault
  // Several addresses were tried: they mostly fail in the same way.
  if (error instanceof AggregateError && error.errors.length > 0) return callFaultOf(error.errors[0])
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  if (connectCodes.has(code)) return 'connect'
  if (timeoutCodes.has(code)) return 'timeout'
  if (unsendableCodes.has(code)) return 'unsendable'
  if (protocolCodes.has(code) || (error as Error | null)?.name === 'HTTPParserError') return 'protocol'
  if (tlsCodes.test(code)) return 'tls'
  return 'reset'
}
