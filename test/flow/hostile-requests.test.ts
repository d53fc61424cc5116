/** Hostile requests to every operation of every interface: each gets a typed answer, and the service goes on. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorCodes } from '#lib/errors.ts'
import { services } from '#services/index.ts'
import { type DescribedAgents, openDescribedAgents } from '../support/described-runs.ts'
import {
  documentedCodes,
  type HostileRequest,
  hostileRequests,
  withoutReferences,
} from '../support/hostile-corpus.ts'
import { type MainApiPlatform, openMainApiPlatform } from '../support/main-api-platform.ts'
import { rawConnection } from '../support/raw-http.ts'

interface Interface {
  /** Path of its description, from which the requests are made. */
  description: string
  /** Headers of a caller that may do everything; `n` counts the requests. */
  headers?(n: number): Record<string, string>
  /** Parts of its addresses that are there. */
  known?: Record<string, string>
}

/** By the name of the service: a new interface is one line here. */
const interfaces: Record<string, Interface> = {
  'vector-gateway': {
    description: '/v1/openapi.json',
    headers: (n) => ({ authorization: `Bearer ${key}`, ...from(n) }),
  },
  'main-api': {
    description: '/api/v1/openapi.json',
    headers: (n) => ({ authorization: `Bearer ${idToken}`, ...from(n) }),
  },
  hub: {
    description: '/openapi.json',
    headers: (n) => ({ authorization: `Bearer ${key}`, ...from(n) }),
  },
  'run-gateway': {
    description: '/openapi.json',
    headers: (n) => ({ authorization: `Bearer ${key}`, ...from(n) }),
    known: { slug: 'whale' },
  },
  'webhook-relay': { description: '/api/v1/webhooks/openapi.json' },
}

/** Each from an address of its own: what the rate of an address refuses is not read. */
function from(n: number) {
  return { 'x-forwarded-for': `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}` }
}

let gateway: MainApiPlatform
let agents: DescribedAgents
let key: string
let idToken: string
beforeAll(async () => {
  agents = await openDescribedAgents()
  gateway = await openMainApiPlatform(agents.env, { mirror: true })
  key = await (await gateway.clientOf('whale')).apiKey()
  idToken = await gateway.tokenFor('admin')
})
afterAll(async () => {
  await gateway?.close()
  await agents?.close()
})

const atOnce = 8

test('every interface is tried', () => {
  const ingresses = services.filter(({ kind }) => kind === 'ingress').map(({ name }) => name)
  expect(Object.keys(interfaces)).toEqual(ingresses)
})

test.each(Object.keys(interfaces))(
  'every hostile request to %s has a typed answer',
  { timeout: 120_000 },
  async (name) => {
    const service = services.find((one) => one.name === name)
    const url = service?.kind === 'ingress' ? gateway.addresses[service.address.name] : undefined
    const { description, headers = () => ({}), known } = interfaces[name]!
    const api = withoutReferences(await (await fetch(new URL(description, url))).json())
    const requests = [...hostileRequests(api, known)]
    expect(requests.length).toBeGreaterThan(50)
    const faults: string[] = []
    let next = 0
    async function sendRest(): Promise<void> {
      for (let n = next++; n < requests.length; n = next++) {
        const fault = await faultOf(url as string, requests[n]!, headers(n))
        if (fault) faults.push(`${requests[n]!.name}: ${fault}`)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, sendRest))
    expect(faults).toEqual([])
    expect((await fetch(new URL('/livez', url))).status).toBe(200)
  },
)

interface Operations {
  paths: Record<string, Record<string, { security?: object[]; requestBody?: object }>>
}

/** `POST /v1/auth/verify` and so on: what takes a body of anyone. */
function openOperations({ paths }: Operations): string[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { security = [], requestBody }]) =>
      requestBody && security.length === 0 ? `${method.toUpperCase()} ${path}` : [],
    ),
  )
}

test.each(Object.keys(interfaces))(
  '%s takes little of strangers, and answers before it reads',
  async (name) => {
    const service = services.find((one) => one.name === name)
    const url = new URL(service?.kind === 'ingress' ? gateway.addresses[service.address.name]! : '')
    const api = (await (await fetch(new URL(interfaces[name]!.description, url))).json()) as Operations
    const bodyBytes = name === 'webhook-relay' ? 256 * 1_024 : 16 * 1_024
    const open = openOperations(api)
    expect(open.length > 0).toBe(['vector-gateway', 'main-api', 'webhook-relay'].includes(name))
    const expected: [string, number][] = [
      ...open.map((operation): [string, number] => [operation, 413]),
      ['POST /nowhere/at/all', 404],
      ['DELETE /livez', 405],
    ]
    for (const [operation, status] of expected) {
      const one = await rawConnection(
        Number(url.port),
        `${operation} HTTP/1.1\r\nHost: ${url.host}\r\nOrigin: ${url.origin}\r\nContent-Type: application/json\r\nContent-Length: ${bodyBytes + 1}\r\n\r\n`,
      )
      expect(await one.until('request_id'), operation).toContain(`HTTP/1.1 ${status} `)
      one.socket.destroy()
    }
    const long = await rawConnection(
      Number(url.port),
      `GET /livez HTTP/1.1\r\nHost: ${url.host}\r\nX: ${'x'.repeat(33_000)}\r\n\r\n`,
    )
    expect(await long.ended).toContain('HTTP/1.1 431 ')
  },
)

/** The fault of an answer; undefined for a success, or a problem document that says nothing of our insides. */
async function faultOf(
  url: string,
  request: HostileRequest,
  headers: Record<string, string>,
): Promise<string | undefined> {
  const { method, path, body } = request
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { ...headers, ...request.headers },
    ...(body ? { body } : {}),
  })
  if (answer.headers.get('content-type')?.startsWith('text/event-stream')) {
    await answer.body?.cancel()
    return undefined
  }
  const text = await answer.text()
  const shown = `${answer.status} ${text.slice(0, 300)}`
  if (answer.status < 400) return undefined
  // Passwords are checked a few at a time: on a busy machine some of these are asked to come again.
  const isOverload = answer.status === 503 && text.includes('"code":"overloaded"')
  if (answer.status >= 500 && !isOverload) return shown
  const kind = answer.headers.get('content-type')
  if (path.startsWith('/openai/') && kind?.startsWith('application/json')) return openAiFaultOf(text, shown)
  if (!kind?.startsWith('application/problem+json')) return `no problem: ${shown}`
  const problem = JSON.parse(text) as { status: number; code: string; errors?: object[] }
  if (problem.status !== answer.status || !(problem.code in errorCodes)) return `no known code: ${shown}`
  if (/node_modules|\n\s+at |\.ts:\d/.test(text)) return `shows our insides: ${shown}`
  if (problem.code === 'validation_failed' && !problem.errors?.length) return `names no fault: ${shown}`
  // An address that became another one, or is none, is no address of the operation.
  const notFound = problem.code === 'not_found' || problem.code === 'method_not_allowed'
  const elsewhere = notFound || (path.startsWith('/openai/') && problem.code === 'bad_request')
  if (!elsewhere && !documentedCodes(request.operation, answer.status).includes(problem.code))
    return `not in the description: ${shown}`
  return undefined
}

/** The same of a fault in the form of OpenAI's API, whose description names no codes. */
function openAiFaultOf(text: string, shown: string): string | undefined {
  const { error } = JSON.parse(text) as { error?: { code?: string; message?: string; param?: string | null } }
  if (!error?.message || error.param === undefined) return `not in OpenAI's form: ${shown}`
  if (error.code !== 'model_not_found' && !(error.code! in errorCodes)) return `no known code: ${shown}`
  if (/node_modules|\n\s+at |\.ts:\d/.test(text)) return `shows our insides: ${shown}`
  if (error.code === 'validation_failed' && error.param === null) return `names no fault: ${shown}`
  return undefined
}
