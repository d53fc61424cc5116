/** Preconditions of the run gateway's described operations: agents at a node, a run and a dispatch of the caller. */

import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { confirmation } from './asking-scripts.ts'
import type { DescribedCall } from './described-call.ts'
import { eventually } from './eventually.ts'
import type { GatewayPlatform } from './gateway-platform.ts'
import { echoScript, openScriptedNode } from './scripted-node.ts'

export interface DescribedAgents {
  env: Record<string, string>
  close(): Promise<void>
}

export async function openDescribedAgents(): Promise<DescribedAgents> {
  const node = await openScriptedNode({ whale: echoScript, pulse: confirmation, axon: echoScript })
  const folder = mkdtempSync(join(tmpdir(), 'fl-nodes-'))
  const file = join(folder, 'nodes.yaml')
  const nodes = Object.fromEntries([...node.scripts.keys()].map((slug) => [slug, { url: node.url }]))
  writeFileSync(file, JSON.stringify({ nodes }))
  return {
    env: { RUN_NODES_FILE: file },
    async close() {
      await node.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** By operationId; to be asked again for each client. */
export async function runSpecials(
  platform: GatewayPlatform,
  token: string,
): Promise<Record<string, Partial<DescribedCall>>> {
  const url = platform.addresses.agent_gateway_url as string
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
  const send = async (path: string, body?: object) => {
    const given = body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers }
    const answer = await fetch(`${url}${path}`, given)
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer
  }
  const made = await send('/whale/run', { newMessage: { parts: [{ text: 'hello' }] } })
  const run = { parameters: { path: { runId: made.headers.get('x-run-id') as string } } }
  const sessionOf = (sessionId: string) => ({
    parameters: { path: { sessionId }, query: { userId: made.headers.get('x-user-id') as string } },
  })
  const session = sessionOf(made.headers.get('x-session-id') as string)
  /** One for each interface. */
  const gone = [`gone-${randomUUID()}`, `gone-too-${randomUUID()}`] as const
  for (const sessionId of gone) {
    await send('/whale/run', { sessionId, newMessage: { parts: [{ text: 'hello' }] } })
  }
  const { goalId } = (await (await send('/dispatch', { message: 'hello' })).json()) as { goalId: number }
  await eventually('the dispatch ends', async () => {
    const { status } = (await (await send(`/dispatches/${goalId}`)).json()) as { status: string }
    return status !== 'running'
  })
  const dispatch = { parameters: { path: { goalId: String(goalId) } } }
  const asking = async () => {
    const asked = await send('/pulse/run', { newMessage: { parts: [{ text: 'pay' }] } })
    return {
      parameters: { path: { runId: asked.headers.get('x-run-id') as string } },
      body: { message: 'yes' },
    }
  }
  const scheduled = async () => {
    const made = await send('/schedules', { agent: 'whale', message: 'hello', cron: '0 7 * * *' })
    return { parameters: { path: { id: ((await made.json()) as { id: string }).id } } }
  }
  const schedule = await scheduled()
  const ofMark = (mark: string): [string, Partial<DescribedCall>][] => [
    [`get${mark}Run`, run],
    [`follow${mark}Run`, run],
    [`cancel${mark}Run`, run],
    [`list${mark}SessionEvents`, session],
    [`get${mark}Dispatch`, dispatch],
    [`follow${mark}Dispatch`, dispatch],
    [`cancel${mark}Dispatch`, dispatch],
    [`create${mark}Schedule`, { status: 201, body: { agent: 'whale', message: 'hello', cron: '0 7 * * *' } }],
    [`get${mark}Schedule`, schedule],
    [`list${mark}ScheduledRuns`, schedule],
    [`update${mark}Schedule`, { ...schedule, body: { paused: true } }],
  ]
  return {
    createChatCompletion: {
      parameters: {},
      body: { model: 'whale', messages: [{ role: 'user', content: 'hello' }] },
    },
    dispatch: { status: 202 },
    createFleetRun: { status: 202 },
    deleteRunSession: sessionOf(gone[0]),
    deleteFleetRunSession: sessionOf(gone[1]),
    createFleetDispatch: { status: 202 },
    deleteSchedule: await scheduled(),
    deleteFleetSchedule: await scheduled(),
    answerRun: await asking(),
    answerFleetRun: { ...(await asking()), status: 202 },
    ...Object.fromEntries([...ofMark(''), ...ofMark('Fleet')]),
  }
}

const noRun = { path: { runId: `run_${'0'.repeat(32)}` } }

export const runRefusals: (Partial<DescribedCall> & { operationId: string; status: number; code: string })[] =
  [
    {
      operationId: 'runAgent',
      parameters: { path: { slug: 'nobody' } },
      status: 404,
      code: 'agent_not_found',
    },
    {
      operationId: 'getCallableAgent',
      parameters: { path: { slug: 'nobody' } },
      status: 404,
      code: 'agent_not_found',
    },
    {
      operationId: 'runAgent',
      body: { appName: 'PULSE', newMessage: { parts: [{ text: 'x' }] } },
      status: 400,
      code: 'app_name_mismatch',
    },
    {
      operationId: 'runAgent',
      body: { newMessage: { parts: [{ text: ' ' }] } },
      status: 422,
      code: 'validation_failed',
    },
    { operationId: 'dispatch', body: { message: ' ' }, status: 422, code: 'validation_failed' },
    {
      operationId: 'createFleetRun',
      body: { newMessage: { parts: [{ text: 'x' }] } },
      status: 422,
      code: 'validation_failed',
    },
    {
      operationId: 'createChatCompletion',
      parameters: {},
      body: { model: 'nobody', messages: [{ role: 'user', content: 'x' }] },
      status: 404,
      code: 'model_not_found',
    },
    {
      operationId: 'createChatCompletion',
      parameters: {},
      body: { model: 'whale', messages: [{ role: 'user', content: 'x' }], n: 2 },
      status: 400,
      code: 'validation_failed',
    },
    {
      operationId: 'getChatModel',
      parameters: { path: { model: 'nobody' } },
      status: 404,
      code: 'model_not_found',
    },
    { operationId: 'getFleetRun', parameters: noRun, status: 404, code: 'run_not_found' },
    { operationId: 'getRun', parameters: noRun, status: 404, code: 'run_not_found' },
    { operationId: 'followRun', parameters: noRun, status: 404, code: 'run_not_found' },
    {
      operationId: 'getSchedule',
      parameters: { path: { id: 'nothing' } },
      status: 404,
      code: 'schedule_not_found',
    },
    { operationId: 'createSchedule', body: { agent: 'whale' }, status: 422, code: 'validation_failed' },
    {
      operationId: 'listSessionEvents',
      parameters: { path: { sessionId: 'nothing' } },
      status: 404,
      code: 'session_not_found',
    },
    {
      operationId: 'getDispatch',
      parameters: { path: { goalId: '999999' } },
      status: 404,
      code: 'dispatch_not_found',
    },
  ]
