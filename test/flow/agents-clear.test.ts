/** Clearing an agent: its runs end and go with all that belongs to them, its threads and goals go, and others keep theirs. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { clearAgentAction } from '#operations/agents/clear.ts'
import type { OperationContext } from '#operations/operation.ts'
import { eventually } from '#test/support/eventually.ts'
import { call as bareCall } from '#test/support/gateway-call.ts'
import { recordsOf } from '#test/support/log-reading.ts'
import { openRunsPlatform, type RunsPlatform } from '#test/support/runs-platform.ts'
import { hubRecords } from '#topics/catalog.ts'

let platform: RunsPlatform
let guest: string
let host: string

beforeAll(async () => {
  platform = await openRunsPlatform()
  platform.script('whale', () => [{ text: 'Ask @pulse.' }])
  platform.script('cipher', () => [{ text: 'begun' }, { hang: true }])
  guest = await platform.keyOf('guest')
  host = await platform.keyOf('host')
})
afterAll(() => platform?.close())

const clear = (agent_id: string) =>
  clearAgentAction.run(
    {
      platform: platform.platform,
      output: { item() {}, progress() {} },
      signal: new AbortController().signal,
      actor: { kind: 'command_line', id: 'tester' },
    } as unknown as OperationContext<unknown>,
    { agent_id },
  )

async function post(path: string, key: string, body: object): Promise<number> {
  const { status, json } = await bareCall(platform.hubUrl, path, { method: 'POST', key, body })
  expect(status).toBe(201)
  return json.id as number
}

async function count(table: string): Promise<number> {
  const { rows } = await platform.platform.engines.relational.query<{ n: number }>(
    `select count(*)::integer as n from platform.${table}`,
  )
  return rows[0]!.n
}

const tables = ['runs', 'run_trees', 'run_events', 'run_reports', 'dispatches', 'notes', 'goals']
const counts = async () =>
  Object.fromEntries(await Promise.all(tables.map(async (table) => [table, await count(table)])))

async function allReported(): Promise<void> {
  await eventually('all runs and reports ended', async () => {
    const { rows } = await platform.platform.engines.relational.query(
      "select run_id from platform.runs where status in ('queued', 'running')",
    )
    return rows.length === 0
  })
}

it('removes what the agent made and nothing else, also runs that never end by themselves', async () => {
  await platform.run('whale', 'hello', { key: host })
  const kept = await post('/fleet_notes', host, { subject: 'Kept', body: 'a thread of the host' })
  await post('/goals', host, { title: 'Kept' })
  await allReported()
  const before = await counts()

  await platform.run('whale', 'hello', { key: guest })
  const dispatch = await platform.call('POST', '/dispatch', { key: guest, body: { message: 'to all' } })
  expect(dispatch.status).toBe(202)
  const hanging = platform.run('cipher', 'never', { key: guest })
  const note = await post('/fleet_notes', guest, { subject: 'Gone', body: 'a thread of the guest' })
  await post('/fleet_notes', host, { subject: 'Gone, too', body: 'a reply', parent_id: note })
  await post('/fleet_notes', guest, { subject: 'Gone, alone', body: 'a reply', parent_id: kept })
  const goal = await post('/goals', guest, { title: 'Gone' })
  await eventually('cipher is at work', () => platform.node.runs.some(({ text }) => text === 'never'))

  const removed = await clear('guest')
  expect(removed).toMatchObject({ notes: 3, goals: 2, dispatches: 1 })
  expect((removed as { runs: number }).runs).toBeGreaterThan(7)
  await hanging
  await allReported()
  expect(await counts()).toEqual(before)
  // hub.records has no null values: a note ends archived, a goal canceled, and the point is gone.
  await eventually('the records', async () => {
    const records = await recordsOf(platform.platform, hubRecords)
    const last = new Map(records.map(({ key, value }) => [key, value?.status]))
    expect([last.get(`note/${note}`), last.get(`goal/${goal}`)]).toEqual(['archived', 'canceled'])
    return true
  })
  await eventually('the point', async () => {
    const { vectors } = platform.platform.engines
    expect(await vectors.get('fleet_notes', [`note-${kept}`])).toHaveLength(1)
    expect(await vectors.get('fleet_notes', [`note-${note}`])).toEqual([])
    return true
  })
  expect(await clear('guest')).toEqual({ notes: 0, goals: 0, runs: 0, dispatches: 0 })
})

it('is in the audit, and needs an agent', async () => {
  await expect(clear('nobody')).rejects.toMatchObject({ code: 'not_found' })
  const { rows } = await platform.platform.engines.relational.query(
    "select target, outcome from platform.admin_actions where action = 'agent.clear' order by seq",
  )
  expect(rows).toEqual([
    { target: 'guest', outcome: 'done' },
    { target: 'guest', outcome: 'done' },
    { target: 'nobody', outcome: 'refused' },
  ])
})
