/** What a failed call of a node means for the run. The texts of undici and the system may hold addresses: none is shown. */

import { NodeFault } from '../types.ts'

/** The request never reached the node. */
const unsentCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])
/** The codes of OpenSSL for certificates have no common prefix. */
const tlsCodes = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|EPROTO|HOSTNAME_)/

/** Of a call that began nothing, however it failed. */
export function unavailable(error: unknown): NodeFault {
  if (error instanceof NodeFault) return error
  return new NodeFault('unavailable', `The node does not answer (${codeOf(error)}).`)
}

/** Of a call that may have begun the run. */
export function brokenCall(error: unknown): NodeFault {
  if (error instanceof NodeFault) return error
  const code = codeOf(error)
  return unsentCodes.has(code) || tlsCodes.test(code)
    ? unavailable(error)
    : new NodeFault('lost', `The connection to the node ended before its answer did (${code}).`)
}

/** Of an answer to a run that is no stream of events. */
export function refusedRun(status: number): NodeFault {
  const message = `The node answered HTTP ${status}.`
  // 4xx of the address or credential, too many requests, and proxies in front of the node.
  const neverBegan = status < 400 || [401, 403, 404, 405, 408, 421, 425, 429, 502, 503, 504].includes(status)
  return new NodeFault(neverBegan ? 'unavailable' : 'agent_error', message)
}

function codeOf(error: unknown): string {
  // Several addresses were tried: they mostly fail in the same way.
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0])
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? code : String(name ?? 'unknown').slice(0, 40)
}
