/** Preconditions of the main API's described operations: a token of an admin, and useful bodies. */

import { issueAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import type { DescribedCall } from './described-call.ts'
import { peopleRefusals, peopleSpecials } from './described-people.ts'
import type { GatewayPlatform } from './gateway-platform.ts'
import { exchangePath } from './main-api-platform.ts'

const admin = 'described-admin'

/** An agent with limits, so that their headers are there; its calls come faster than any tier allows. */
export async function provisionAdmin(platform: GatewayPlatform): Promise<string> {
  await platform.provision({ agentId: admin, access: 'admin', tier: 'agent', burst: 10_000, concurrent: 100 })
  // The target of the examples.
  await platform.platform.engines.relational.query(
    "insert into platform.webhook_targets (name, partition) values ('ops-channel', 63) on conflict do nothing",
  )
  return (await signedIn(platform)).idToken
}

let asked = 0

/** An agent key of the admin. */
export async function adminKey(platform: GatewayPlatform): Promise<string> {
  return (await issueAgentKey(platform.platform.engines.relational, { agentId: admin })).key
}

/** By operationId; to be asked again for each client. */
export async function mainApiSpecials(
  platform: GatewayPlatform,
): Promise<Record<string, Partial<DescribedCall>>> {
  const { relational } = platform.platform.engines
  const issue = () => issueAgentKey(relational, { agentId: admin })
  const { idToken, refreshToken } = await signedIn(platform)
  const changed = `described-${++asked}`
  await platform.provision({ agentId: changed })
  const ofChanged = { parameters: { path: { agent_id: changed } } }
  return {
    tradeAgentKey: { body: { key: (await issue()).key } },
    signInWithCustomToken: {
      body: { token: await customTokenOf(platform, (await issue()).key), returnSecureToken: true },
    },
    refreshIdToken: { body: { grant_type: 'refresh_token', refresh_token: refreshToken } },
    lookUpAccount: { body: { idToken } },
    issueAgentKey: { status: 201 },
    provisionAgent: { status: 201, body: { agent_id: `${changed}-made`, role: 'researcher' } },
    updateAgent: ofChanged,
    rotateAgent: ofChanged,
    deleteAgent: ofChanged,
    testTarget: { status: 202 },
    revokeAgentKey: { parameters: { path: { id: (await issue()).record.id } } },
    ...(await peopleSpecials(platform)),
  }
}

export const mainApiRefusals: (Partial<DescribedCall> & {
  operationId: string
  status: number
  code: string
})[] = [
  { operationId: 'tradeAgentKey', body: { key: 'svc_' }, status: 400, code: 'invalid_agent_key' },
  { operationId: 'tradeAgentKey', body: { key: `svc_${'0'.repeat(64)}` }, status: 401, code: 'unauthorized' },
  { operationId: 'signInWithCustomToken', body: { token: 'x' }, status: 400, code: 'identity_refused' },
  { operationId: 'provisionAgent', body: { agent_id: admin }, status: 409, code: 'agent_exists' },
  { operationId: 'provisionAgent', body: { agent_id: '..' }, status: 422, code: 'validation_failed' },
  {
    operationId: 'updateAgent',
    parameters: { path: { agent_id: 'nobody' } },
    status: 404,
    code: 'not_found',
  },
  {
    operationId: 'discardDeadLetters',
    body: { filter: { topic: 'audit.events' } },
    status: 404,
    code: 'dead_letter_not_found',
  },
  {
    operationId: 'searchCollection',
    parameters: { path: { collection: 'none' } },
    status: 404,
    code: 'collection_not_found',
  },
  {
    operationId: 'listPoints',
    parameters: { path: { collection: 'none' } },
    status: 404,
    code: 'collection_not_found',
  },
  { operationId: 'listPoints', body: { limit: 0 }, status: 422, code: 'validation_failed' },
  { operationId: 'searchCollection', body: { like: 'nobody' }, status: 404, code: 'point_not_found' },
  { operationId: 'searchCollection', body: { limit: 1 }, status: 422, code: 'validation_failed' },
  {
    operationId: 'tailTopic',
    parameters: { path: { topic: 'no.topic' } },
    status: 404,
    code: 'not_found',
  },
  { operationId: 'issueAgentKey', body: { agent_id: 'nobody' }, status: 404, code: 'not_found' },
  { operationId: 'testTarget', parameters: { path: { name: 'nobody' } }, status: 404, code: 'not_found' },
  ...peopleRefusals,
  {
    operationId: 'issueAgentKey',
    body: { agent_id: '' },
    status: 422,
    code: 'validation_failed',
  },
]

async function signedIn(platform: GatewayPlatform) {
  const { key } = await issueAgentKey(platform.platform.engines.relational, { agentId: admin })
  const answer = await post(platform, exchangePath, { token: await customTokenOf(platform, key) })
  return answer as { idToken: string; refreshToken: string }
}

async function customTokenOf(platform: GatewayPlatform, key: string): Promise<string> {
  const answer = await post(platform, '/api/v1/auth/agent', { key })
  return (answer as { data: { customToken: string } }).data.customToken
}

async function post(platform: GatewayPlatform, path: string, body: object): Promise<unknown> {
  const answer = await fetch(`${platform.addresses.base_url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}
