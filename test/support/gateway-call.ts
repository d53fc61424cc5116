/** Bare requests to a gateway, for what the typed client would never send. */

export interface Answer {
  status: number
  headers: Headers
  text: string
  json: Record<string, unknown>
}

export interface BareCall {
  method?: string
  key?: string
  /** Sent as it is when it is text or bytes, else as JSON. */
  body?: unknown
  headers?: Record<string, string>
}

export async function call(vectorUrl: string, path: string, given: BareCall = {}): Promise<Answer> {
  const raw = typeof given.body === 'string' || given.body instanceof Uint8Array
  const response = await fetch(new URL(path, vectorUrl), {
    method: given.method ?? (given.body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(given.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(given.key === undefined ? {} : { authorization: `Bearer ${given.key}` }),
      ...given.headers,
    },
    ...(given.body === undefined
      ? {}
      : { body: raw ? (given.body as string | Uint8Array<ArrayBuffer>) : JSON.stringify(given.body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: parsed(text) }
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}
