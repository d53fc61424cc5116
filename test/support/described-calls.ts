/**
 * A running platform, the descriptions of its interfaces, and calls of every operation they describe: good ones, made of
 * the described examples, and refused ones.
 */

import { sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Document, type Operation, operationsOf } from '#runtime/http/api/document.ts'
import { services } from '#services/index.ts'
import type { DescribedCall } from './described-call.ts'
import { hubRefusals, hubSpecials } from './described-hub.ts'
import { mainApiRefusals, mainApiSpecials, provisionAdmin } from './described-main-api.ts'
import { openDescribedAgents, runRefusals, runSpecials } from './described-runs.ts'
import { type GatewayPlatform, openGatewayPlatform } from './gateway-platform.ts'

/** By the name of the service. A new interface is a line here, and one in `refusals`. */
const prefixes: Record<string, string> = {
  'vector-gateway': '/v1',
  'main-api': '/api/v1',
  hub: '',
  'run-gateway': '',
  'webhook-relay': '/api/v1/webhooks',
}

export interface DescribedInterface {
  name: string
  url: string
  prefix: string
  document: Document
}

export interface DescribedPlatform {
  interfaces: DescribedInterface[]
  privateKeyPem: string
  token: string
  /** An ID token of an admin. */
  idToken: string
  platform: GatewayPlatform
  close(): Promise<void>
}

const agent = 'whale'

export async function openDescribedPlatform(): Promise<DescribedPlatform> {
  const agents = await openDescribedAgents()
  const targets = writeTargets()
  const env = { ...agents.env, WEBHOOK_TARGETS_FILE: targets.file }
  const platform = await openGatewayPlatform(env, { mirror: true })
  const { privateKeyPem } = await platform.provision({ agentId: agent, tier: 'agent' })
  const interfaces = await Promise.all(
    services.flatMap((service) => {
      if (service.kind !== 'ingress') return []
      const prefix = prefixes[service.name]
      const url = platform.addresses[service.address.name]
      if (prefix === undefined || url === undefined) throw new Error(`${service.name} is not tried`)
      return [
        fetch(`${url}${prefix}/openapi.json`).then(async (answer) => ({
          name: service.name,
          url,
          prefix,
          document: (await answer.json()) as Document,
        })),
      ]
    }),
  )
  const gateway = platform.vectorUrl
  const { api_key } = await post(gateway, '/v1/auth/verify', await signedChallenge(gateway, privateKeyPem))
  const idToken = await provisionAdmin(platform)
  return {
    interfaces,
    privateKeyPem,
    token: String(api_key),
    idToken,
    platform,
    async close() {
      await platform.close()
      await agents.close()
      targets.remove()
    },
  }
}

/** The target of the examples. Nobody listens there, so that its head can be given up. */
function writeTargets() {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  const file = join(folder, 'targets.yaml')
  writeFileSync(file, JSON.stringify({ targets: { 'ops-channel': { url: 'http://127.0.0.1:9/' } } }))
  return { file, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** The calls, after making their preconditions: a point, and a signed challenge. Call it again for each client. */
export async function describedCalls(world: DescribedPlatform): Promise<DescribedCall[]> {
  const gateway = world.platform.vectorUrl
  const point = { id: 'STIDX001-5f2d1c', vector: new Array(1536).fill(1), payload: { status: 'active' } }
  const upsert = { collection: 'knowledgebase', points: [point] }
  const { operation_id } = await post(gateway, '/v1/vectors/upsert?wait=true', upsert, world.token)
  const special: Record<string, Partial<DescribedCall>> = {
    verify: { body: await signedChallenge(gateway, world.privateKeyPem) },
    getOperation: { parameters: { path: { operation_id } } },
    upsertPoints: { status: 202 },
    deletePoints: { status: 202 },
    setPayload: { status: 202 },
    fireEvent: { status: 202 },
    ...(await collectionSpecials(world)),
    ...(await hubSpecials(world.platform, world.token)),
    ...(await runSpecials(world.platform, world.token)),
    ...(await mainApiSpecials(world.platform)),
  }
  const calls = world.interfaces.flatMap((one) => {
    const good = [...operationsOf(one.document)].map(([path, method, operation]): DescribedCall => {
      const token = operation.security?.length ? tokenFor(one.name, world) : null
      const streams = operation.responses[200]?.content?.['text/event-stream'] !== undefined
      const faultType = path.startsWith('/openai/') ? ('OpenAiError' as const) : ('Problem' as const)
      const base = { service: one.name, url: one.url, path, method, token, status: 200, streams, faultType }
      const { operationId, tags = [] } = operation
      return { ...base, operationId, tag: tags[0]!, ...examplesOf(operation), ...special[operationId] }
    })
    const withoutKey = good
      .filter(({ token }) => token !== null)
      .map((call) => ({ ...call, token: null, status: 401, code: 'unauthorized' }))
    const refused = [...refusals, ...hubRefusals, ...runRefusals, ...mainApiRefusals].flatMap(
      ({ operationId, ...change }) => {
        const call = good.find((other) => other.operationId === operationId)
        return call ? [{ ...call, ...change }] : []
      },
    )
    return [...good, ...withoutKey, ...refused]
  })
  // The others need its point and its agent.
  const isDelete = (call: DescribedCall) => ['deletePoints', 'deleteAgent'].includes(call.operationId)
  return [...calls.filter((call) => !isDelete(call)), ...calls.filter(isDelete)]
}

let asked = 0

/** One that an admin deletes, and one that is made. */
async function collectionSpecials(world: DescribedPlatform): Promise<Record<string, Partial<DescribedCall>>> {
  const { vectorUrl, provision } = world.platform
  const keeper = `keeper-${++asked}`
  const { privateKeyPem } = await provision({ agentId: keeper, access: 'admin', tier: 'agent' })
  const challenge = await signedChallenge(vectorUrl, privateKeyPem, keeper)
  const { api_key: token } = await post(vectorUrl, '/v1/auth/verify', challenge)
  const [made, gone, goneToo] = ['made', 'gone', 'gone-too'].map((name) => `${name}-${asked}`)
  for (const name of [gone, goneToo]) await post(vectorUrl, '/v1/collections', { name }, String(token))
  return {
    createVectorCollection: { body: { name: `vector-${made}` }, status: 201 },
    getVectorCollection: { parameters: { path: { name: 'knowledgebase' } } },
    createPayloadIndex: { parameters: { path: { name: 'knowledgebase' } } },
    deleteVectorCollection: { parameters: { path: { name: gone } }, token: String(token) },
    createCollection: { body: { name: made }, status: 201 },
    getCollection: { parameters: { path: { collection: 'knowledgebase' } } },
    deleteCollection: { parameters: { path: { collection: goneToo } } },
  }
}

function tokenFor(service: string, { token, idToken }: DescribedPlatform): string {
  return service === 'main-api' ? idToken : token
}

const vector = new Array(1536).fill(1)
const refusals: (Partial<DescribedCall> & { operationId: string; status: number; code: string })[] = [
  {
    operationId: 'handshake',
    body: { agent_id: 'nobody', nonce: 'ab'.repeat(16) },
    status: 401,
    code: 'unknown_agent',
  },
  {
    operationId: 'verify',
    body: { agent_id: agent, signature: '00'.repeat(64) },
    status: 401,
    code: 'invalid_signature',
  },
  {
    operationId: 'searchPoints',
    body: { collection: 'posts', vector, limit: 5_000 },
    status: 422,
    code: 'validation_failed',
  },
  {
    operationId: 'searchPointsBatch',
    body: { searches: [{ collection: 'posts', vector: [1] }] },
    status: 422,
    code: 'validation_failed',
  },
  {
    operationId: 'searchTable',
    body: { table: 'embeddings', vector, filter_sql: 'pg_sleep(1) = 1' },
    status: 400,
    code: 'invalid_filter',
  },
  {
    operationId: 'searchTable',
    body: { table: 'secrets', vector },
    status: 404,
    code: 'table_not_found',
  },
  {
    operationId: 'getPoints',
    parameters: { query: { collection: 'posts', id: 'absent' } },
    status: 404,
    code: 'point_not_found',
  },
  {
    operationId: 'upsertPoints',
    body: { collection: 'fleet_notes', points: [{ id: 'audit-1', vector }] },
    status: 403,
    code: 'reserved_id',
  },
  {
    operationId: 'getOperation',
    parameters: { path: { operation_id: 'x' } },
    status: 400,
    code: 'invalid_operation_id',
  },
  { operationId: 'debugAgent', parameters: { path: { agent_id: 'other' } }, status: 403, code: 'forbidden' },
  {
    operationId: 'fireEvent',
    parameters: { query: { targets: ['x'] } },
    status: 400,
    code: 'unknown_target',
  },
]

function examplesOf(operation: Operation): Pick<DescribedCall, 'parameters' | 'body'> {
  const parameters: DescribedCall['parameters'] = {}
  for (const { in: place, name, example } of operation.parameters ?? []) {
    if (place === 'cookie' || example === undefined) continue
    parameters[place] = { ...parameters[place], [name]: example }
  }
  const body = operation.requestBody?.content['application/json']?.example
  return { parameters, ...(body === undefined ? {} : { body }) }
}

/** The body for verify. */
async function signedChallenge(gateway: string, privateKeyPem: string, agentId = agent) {
  const nonce = 'c0ffee'.repeat(4)
  const { server_nonce } = await post(gateway, '/v1/auth/handshake', { agent_id: agentId, nonce })
  const signature = sign(null, Buffer.from(`${nonce}${server_nonce}`), privateKeyPem).toString('hex')
  return { agent_id: agentId, signature }
}

async function post(
  url: string,
  path: string,
  body: object,
  token?: string,
): Promise<Record<string, unknown>> {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Record<string, unknown>
}
