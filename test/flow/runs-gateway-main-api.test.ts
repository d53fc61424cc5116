/** Runs and dispatches at the main API: the rules of the run gateway, in its envelope, and who started what. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '#test/support/eventually.ts'
import { call as bareCall } from '#test/support/gateway-call.ts'
import { agents, message, openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'
import { echoScript } from '#test/support/scripted-node.ts'
import { readSse } from '#test/support/sse-reader.ts'

let platform: RunsPlatform
let key: string

beforeAll(async () => {
  platform = await openRunsPlatform()
  key = await platform.tokenFor('member')
})
afterAll(() => platform?.close())

async function api(
  method: string,
  path: string,
  body?: object,
  given: { key?: string; headers?: object } = {},
) {
  const answer = await bareCall(platform.baseUrl, `/api/v1${path}`, {
    method,
    key: given.key ?? key,
    ...(body ? { body } : {}),
    headers: { ...given.headers },
  })
  // biome-ignore lint/suspicious/noExplicitAny: of many shapes, each checked where it is read.
  return { ...answer, data: answer.json.data as any }
}

it('a message is accepted, its events are followed, and it is listed', async () => {
  const headers = { 'idempotency-key': randomUUID() }
  const body = { appName: 'whale', newMessage: message('hello') }
  const made = await api('POST', '/runs', body, { headers })
  expect(made.status).toBe(202)
  expect(made.headers.get('location')).toBe(`/api/v1/runs/${made.data.runId}`)
  expect((await api('POST', '/runs', body, { headers })).data.runId).toBe(made.data.runId)
  const stream = await readSse(`${platform.baseUrl}/api/v1/runs/${made.data.runId}/events`, { key })
  await stream.over
  expect(stream.ids()).toEqual([1])
  expect((await api('GET', `/runs/${made.data.runId}`)).data.status).toBe('completed')
  expect((await api('GET', '/runs?agent=WHALE')).data).toMatchObject([{ runId: made.data.runId }])
  const stranger = await platform.idTokenOf('a-stranger')
  expect((await api('GET', `/runs/${made.data.runId}`, undefined, { key: stranger })).json.code).toBe(
    'run_not_found',
  )
})

it('a key that comes nine times at once starts one run', async () => {
  const headers = { 'idempotency-key': randomUUID() }
  const body = { appName: 'whale', newMessage: message('once') }
  const nine = await Promise.all(Array.from({ length: 9 }, () => api('POST', '/runs', body, { headers })))
  expect(nine.map(({ status }) => status)).toEqual(Array(9).fill(202))
  expect(new Set(nine.map(({ data }) => data.runId)).size).toBe(1)
})

it('requests refused at the run gateway are refused here', async () => {
  const newMessage = message('x')
  expect((await api('POST', '/runs', { newMessage })).status).toBe(422)
  expect((await api('POST', '/runs', { appName: 'nobody', newMessage })).json.code).toBe('agent_not_found')
  expect((await api('POST', '/dispatches', {})).status).toBe(422)
  const viewer = await platform.tokenFor('viewer')
  for (const path of ['/runs', '/dispatches', '/runs/x/cancel', '/dispatches/1/cancel']) {
    const body = path.endsWith('cancel') ? undefined : { appName: 'whale', newMessage, message: 'x' }
    expect((await api('POST', path, body, { key: viewer })).json.code).toBe('forbidden')
  }
})

it('a cancel and a dispatch are noted with who did them', async () => {
  platform.script('cipher', () => [{ hang: true }])
  const { data: run } = await api('POST', '/runs', { appName: 'CIPHER', newMessage: message('x') })
  await eventually('it runs', async () => (await api('GET', `/runs/${run.runId}`)).data.status === 'running')
  expect((await api('POST', `/runs/${run.runId}/cancel`)).status).toBe(202)
  await eventually(
    'it is canceled',
    async () => (await api('GET', `/runs/${run.runId}`)).data.status === 'canceled',
  )
  platform.script('cipher', echoScript)
  const { data: dispatch } = await api('POST', '/dispatches', { message: 'x' })
  await eventually(
    'it ends',
    async () => (await api('GET', `/dispatches/${dispatch.goalId}`)).data.status === 'completed',
  )
  const admin = await platform.tokenFor('admin')
  const actions = (await api('GET', '/audit?limit=100', undefined, { key: admin })).data.actions as {
    action: string
    target: string
  }[]
  const noted = actions.map(({ action, target }) => `${action} ${target}`)
  expect(noted).toEqual(
    expect.arrayContaining([
      `run.create ${run.runId}`,
      `run.cancel ${run.runId}`,
      `dispatch.create goal/${dispatch.goalId}`,
    ]),
  )
})

it('the state shows runs and the nodes of agents', async () => {
  await platform.provision({ agentId: 'Whale' })
  await eventually('the state is read again', async () => {
    const { data } = await api('GET', '/brain/state')
    const whale = data.agents.find(({ slug }: { slug: string }) => slug === 'Whale')
    return (
      whale?.node?.status === 'up' && whale.node.last_seen !== null && data.runs.completed > agents.length - 1
    )
  })
})
