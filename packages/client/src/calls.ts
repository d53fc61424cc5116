/** Calls of the vector gateway as the transport sends them. */

import type { Call } from './transport.ts'

/** Gateways and proxies take addresses of this length. */
const queryLengthMax = 6_000

export function get(path: string, query: NonNullable<Call['query']>, signal?: AbortSignal): Call {
  return { method: 'GET', path, query, repeatable: true, ...(signal ? { signal } : {}) }
}

export function post(path: string, body: unknown, signal?: AbortSignal): Call {
  return { method: 'POST', path, body, repeatable: true, ...(signal ? { signal } : {}) }
}

/** By address where it is short, which gateways of every version know; else in the body. */
export function read(
  path: string,
  query: NonNullable<Call['query']>,
  body: Record<string, unknown>,
  signal?: AbortSignal,
): Call {
  const form = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value ?? []].flat()) form.append(name, one)
  }
  return form.toString().length <= queryLengthMax ? get(path, query, signal) : post(path, body, signal)
}
