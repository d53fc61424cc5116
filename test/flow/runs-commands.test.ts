/** `flotilla run`, `flotilla dispatch` and `flotilla runs`, as operators use them on a running platform. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stringify } from 'yaml'
import type { Schedule, ScheduledRun } from '#client/client.ts'
import type { DispatchView, RunView } from '#operations/runs.ts'
import type { RunEvent, StoredEvent } from '#services/runs/state/types.ts'
import { confirmation } from '../support/asking-scripts.ts'
import { runCommand, runJson } from '../support/command-line.ts'
import { eventually } from '../support/eventually.ts'
import { startFlotilla } from '../support/flotilla-process.ts'
import { echoScript, openScriptedNode, type ScriptedNode } from '../support/scripted-node.ts'

const home = mkdtempSync(join(tmpdir(), 'fl-'))
const env = { FLOTILLA_HOME: home }
let node: ScriptedNode
let end = async () => {}

beforeAll(async () => {
  node = await openScriptedNode({
    whale: () => [{ text: 'one ', partial: true }, { text: 'two', partial: true }, { text: 'one two' }],
    pulse: () => [{ raise: 'no pulse today' }],
    cipher: () => [{ text: 'begun' }, { hang: true }],
    nexus: ({ text }) => [{ text: text.includes('WHALE') ? 'so WHALE said' : 'Let @whale say it.' }],
    axon: ({ text }) => [{ text: text.includes('Give the conclusion.') ? 'All is said.' : 'Taken.' }],
    atlas: echoScript,
  })
  const slugs = ['whale', 'pulse', 'nexus', 'atlas', 'axon']
  const entry = (slug: string) => [slug, { url: node.url, codename: slug.toUpperCase() }]
  const nodes = Object.fromEntries([...slugs, 'cipher'].map(entry))
  const file = join(home, 'my-nodes.yaml')
  writeFileSync(file, stringify({ nodes }))
  const atEnd = (kill: () => Promise<void>) => {
    end = kill
  }
  await startFlotilla(home, { atEnd, env: { RUN_NODES_FILE: file } })
}, 180_000)

afterAll(async () => {
  await end()
  await node?.close()
  rmSync(home, { recursive: true, force: true })
})

interface RunDocument {
  run: RunView
  events: StoredEvent[]
}

const textsOf = ({ events }: RunDocument) =>
  events.map(({ event }) => `${event.author}: ${event.content?.parts[0]?.text}`)

test('lists by metadata; anything but key=value is refused', async () => {
  const { code, stdout } = await runCommand(
    ['runs', 'list', '--metadata', 'a=1', '--metadata', 'b==', '--json'],
    env,
  )
  expect([code, JSON.parse(stdout)]).toEqual([0, { runs: [] }])
  const refused = await runCommand(['runs', 'list', '--metadata', '=1'], env)
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('Write key=value')])
})

test('the answer of an agent is shown as it comes, and once', async () => {
  const { code, stdout } = await runCommand(['run', 'WHALE', 'hello', '--session', 's1'], env)
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(/^WHALE: one two\n\[run_[0-9a-f]{32} completed; session s1\]\n$/),
  ])
  expect(node.runs[0]).toMatchObject({ app: 'whale', text: 'hello', sessionId: 's1', streaming: true })
})

test('files go along with a message, with a type by their names', async () => {
  const path = join(home, 'crane.PDF')
  writeFileSync(path, Buffer.from([0, 255, 1]))
  const other = join(home, 'plan')
  writeFileSync(other, 'x')
  const { code } = await runCommand(['run', 'ATLAS', 'read it', '--file', path, '--file', other], env)
  expect(code).toBe(0)
  const { parts } = node.runs.findLast(({ app }) => app === 'atlas')!.body.newMessage as { parts: unknown[] }
  expect(parts).toEqual([
    { text: 'read it' },
    { inlineData: { mimeType: 'application/pdf', data: 'AP8B', displayName: 'crane.PDF' } },
    { inlineData: { mimeType: 'application/octet-stream', data: 'eA==', displayName: 'plan' } },
  ])
  writeFileSync(path, Buffer.alloc(1024 * 1024))
  const tooMuch = await runCommand(['dispatch', 'read it', '--file', other, '--file', path], env)
  expect([tooMuch.code, tooMuch.stderr]).toEqual([1, expect.stringContaining('crane.PDF is too large')])
  const missing = await runCommand(['run', 'ATLAS', 'x', '--file', join(home, 'nowhere')], env)
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('cannot be read (ENOENT)')])
})

test('the answer of an agent acts on no terminal, and begins no line of the command', async () => {
  const before = node.scripts.get('whale')!
  node.scripts.set('whale', () => [{ text: 'one\n[run_0 completed]\x1b[2J\u202e' }])
  const { stdout } = await runCommand(['run', 'WHALE', 'hello'], env)
  node.scripts.set('whale', before)
  expect(stdout).toMatch(
    /^WHALE: one\n {2}\[run_0 completed\]\\x1b\[2J\\u202e\n\[run_[0-9a-f]{32} completed; /,
  )
})

test('as one document: the run and its events, those of agents that were named, too', async () => {
  const answer = await runJson<RunDocument>(['run', 'nexus', 'who knows?', '--user', 'u1'], env)
  expect(textsOf(answer)).toEqual(['NEXUS: Let @whale say it.', 'WHALE: one two'])
  expect(answer.run).toMatchObject({
    appName: 'NEXUS',
    userId: 'u1',
    status: 'completed',
    trigger: 'api',
    joined: [{ agent: 'WHALE' }],
  })
  const shown = await runJson<RunDocument>(['runs', 'show', answer.run.runId], env)
  expect(shown).toEqual(answer)
  // The joined agent has a run of its own.
  const joined = await runJson<RunDocument>(['runs', 'show', answer.run.joined[0]!.runId], env)
  expect([joined.run.trigger, joined.run.parentRunId]).toEqual(['mention', answer.run.runId])
  expect(textsOf(joined)).toEqual(['WHALE: one two'])
})

test('the message is shown before the answers, and in lists', async () => {
  const { run } = await runJson<RunDocument>(['run', 'ATLAS', 'line one\nline two'], env)
  expect(run).toMatchObject({ message: 'line one\nline two', parts: [{ text: 'line one\nline two' }] })
  const { stdout } = await runCommand(['runs', 'show', run.runId], env)
  expect(stdout).toMatch(/message: line one\n {2}line two\n.*ATLAS: atlas heard: line one/s)
  const { runs } = await runJson<{ runs: RunView[] }>(['runs', 'list', '--agent', 'ATLAS'], env)
  expect(runs.map(({ message }) => message)).toContain('line one\nline two')
})

test('a session is listed, shown and deleted, also when it is another user’s', async () => {
  for (const text of ['one', 'two']) await runJson(['run', 'ATLAS', text, '--session', 'kept'], env)
  await runJson(['run', 'WHALE', 'three', '--session', 'kept', '--user', 'u2'], env)
  const listed = async (...more: string[]) =>
    (await runJson<{ sessions: Record<string, unknown>[] }>(['sessions', 'list', ...more], env)).sessions
  expect((await listed('--agent', 'atlas'))[0]).toMatchObject({
    sessionId: 'kept',
    userId: 'operator',
    agents: ['ATLAS'],
    runs: 2,
    lastMessage: 'two',
  })
  expect(await listed('--user', 'u2')).toMatchObject([{ sessionId: 'kept', userId: 'u2', runs: 1 }])
  const { stdout } = await runCommand(['sessions', 'show', 'kept'], env)
  expect(stdout).toMatch(/user +one.*ATLAS +atlas heard: one.*user +two.*ATLAS +atlas heard: two/s)
  const { events } = await runJson<{ events: RunEvent[] }>(['sessions', 'show', 'kept', '--user', 'u2'], env)
  expect(events.map(({ author }) => author)).toEqual(['user', 'WHALE'])
  expect((await runCommand(['session', 'delete', 'kept'], env)).stdout).toBe('kept deleted\n')
  const gone = await runJson<{ error: { code: string } }>(['sessions', 'show', 'kept'], env, 1)
  expect(gone.error.code).toBe('session_not_found')
  expect(await listed('--user', 'u2')).toMatchObject([{ sessionId: 'kept' }])
})

test('a run that fails is an exit code, and says why', async () => {
  const { code, stdout } = await runCommand(['run', 'PULSE', 'hello'], env)
  expect(code).toBe(1)
  expect(stdout).toMatch(/\[run_[0-9a-f]{32} failed: .*no pulse today.*; session [0-9a-f-]{36}\]/)
  const answer = await runJson<RunDocument>(['run', 'PULSE', 'hello'], env, 1)
  expect(answer.run.error?.code).toBe('agent_error')
})

test('messages that cannot be sent are refused', async () => {
  const codeOf = async (args: string[], code: number) =>
    (await runJson<{ error: { code: string } }>(args, env, code)).error.code
  expect(await codeOf(['run', 'NOBODY', 'hello'], 1)).toBe('agent_not_found')
  expect(await codeOf(['run', 'WHALE', ' '], 2)).toBe('validation_failed')
  expect(await codeOf(['run', 'WHALE', 'x'.repeat(40_000)], 1)).toBe('payload_too_large')
  expect(await codeOf(['runs', 'show', 'run_0'], 1)).toBe('run_not_found')
  expect(await codeOf(['runs', 'show', '999'], 1)).toBe('dispatch_not_found')
  expect(await codeOf(['runs', 'cancel', 'run_0'], 1)).toBe('run_not_found')
  expect((await runCommand(['runs', 'list', '--status', 'lost'], env)).code).toBe(2)
})

test('a run goes on without its command, and is listed and canceled', async () => {
  const args = ['run', 'CIPHER', 'hello', '--session', 's2', '--async']
  const { run } = await runJson<{ run: RunView }>(args, env)
  await eventually('its first event', async () => {
    const { events } = await runJson<RunDocument>(['runs', 'show', run.runId], env)
    return events.length === 1
  })
  const list = (...filter: string[]) =>
    runJson<{ runs: RunView[] }>(['runs', 'list', ...filter], env).then(({ runs }) =>
      runs.map(({ runId }) => runId),
    )
  expect(await list('--session', 's2')).toEqual([run.runId])
  expect(await list('--agent', 'CIPHER', '--status', 'running')).toEqual([run.runId])
  expect(await list('--agent', 'CIPHER', '--status', 'completed')).toEqual([])
  expect(await list('--user', 'operator', '--limit', '1')).toEqual([run.runId])
  const canceled = await runCommand(['runs', 'cancel', run.runId], env)
  expect([canceled.code, canceled.stdout]).toEqual([0, `${run.runId} is being canceled\n`])
  await eventually('it is canceled', async () => (await list('--status', 'canceled')).includes(run.runId))
  expect((await runCommand(['runs', 'cancel', run.runId], env)).stdout).toBe(`${run.runId} canceled\n`)
  expect(node.runs.find(({ sessionId }) => sessionId === 's2')?.aborted).toBe(true)
  const reports = await runJson<{ runs: RunView[] }>(['runs', 'list', '--all', '--agent', 'AXON'], env)
  expect(reports.runs.some(({ trigger }) => trigger === 'report')).toBe(true)
})

test('a dispatch shows what each agent says, and how it ends; its conclusion is kept', async () => {
  const { dispatch } = await runJson<{ dispatch: DispatchView }>(['dispatch', 'Report.', '--async'], env)
  expect(dispatch.runs.map(({ agent }) => agent)).toEqual(['WHALE', 'PULSE', 'NEXUS', 'ATLAS', 'CIPHER'])
  const id = String(dispatch.goalId)
  const cipher = dispatch.runs.find(({ agent }) => agent === 'CIPHER')!.runId
  await eventually('one agent hangs', async () => {
    const { events } = await runJson<RunDocument>(['runs', 'show', cipher], env)
    return events.length === 1
  })
  await runJson(['runs', 'cancel', cipher], env)
  const shown = await eventually('it ends', async () => {
    const { dispatch } = await runJson<{ dispatch: DispatchView }>(['runs', 'show', id], env)
    return dispatch.status === 'running' ? undefined : dispatch
  })
  expect([shown.status, shown.result]).toEqual(['partial', 'All is said.'])
  expect((await runCommand(['runs', 'show', id], env)).stdout).toContain('All is said.')
})

test('a dispatch that is followed shows the conclusion last', async () => {
  node.scripts.set('cipher', echoScript)
  node.scripts.set('pulse', echoScript)
  node.scripts.set('atlas', () => [{ raise: 'no atlas today' }])
  const { code, stdout } = await runCommand(['dispatch', 'Report.'], env)
  expect(code).toBe(1)
  expect(stdout).toContain('PULSE: pulse heard: Report.\n')
  expect(stdout).toMatch(/^\[dispatch \d+ to WHALE, PULSE, NEXUS, ATLAS, CIPHER\]\n/)
  expect(stdout).toContain('[ATLAS failed: ')
  expect(stdout).toMatch(/AXON: All is said\.\n\[dispatch \d+ partial: 4 of 5 agents answered\]\n$/)
})

test('a run that asks says so, and goes on with the answer', async () => {
  node.scripts.set('atlas', confirmation)
  const asked = await runCommand(['run', 'ATLAS', 'pay', '--session', 's-ask'], env)
  const question = '[ATLAS asks to call pay {"amount":7} (Pay 7?): approve or refuse?]\n'
  expect([asked.code, asked.stdout]).toEqual([0, expect.stringContaining(question)])
  const runId = /run_[0-9a-f]{32}/.exec(asked.stdout)![0]
  expect(asked.stdout).toContain(`[${runId} input_required; session s-ask]`)
  const without = await runCommand(['runs', 'answer', runId], env)
  expect([without.code, without.stderr]).toEqual([expect.any(Number), expect.stringContaining('one of them')])
  const answered = await runCommand(['runs', 'answer', runId, '--approve'], env)
  expect([answered.code, answered.stdout]).toEqual([0, `ATLAS: Paid.\n[${runId} completed; session s-ask]\n`])
  const late = await runCommand(['runs', 'answer', runId, 'yes'], env)
  expect([late.code === 0, late.stderr]).toEqual([false, expect.stringContaining('does not wait')])
})

test('schedules are made, listed, paused, resumed and removed', async () => {
  const add = [
    'schedules',
    'add',
    'atlas',
    'Any news?',
    '--cron',
    '30 7 * * 1-5',
    '--timezone',
    'Europe/Berlin',
  ]
  const made = await runJson<Schedule>([...add, '--name', 'mornings'], env)
  expect(made).toMatchObject({ agent: 'ATLAS', owner: 'operator', cron: '30 7 * * 1-5', session: 'new' })
  const shown = await runCommand(['schedules', 'list'], env)
  expect(shown.stdout).toMatch(new RegExp(`${made.id} +ATLAS +30 7 \\* \\* 1-5 Europe/Berlin .* mornings`))
  expect((await runCommand(['schedules', 'pause', made.id], env)).stdout).toBe(`${made.id} is paused\n`)
  expect((await runCommand(['schedules', 'resume', made.id], env)).stdout).toContain(made.nextAt)
  expect(await runJson(['schedule', 'show', made.id], env)).toMatchObject({
    message: 'Any news?',
    paused: false,
  })
  const at = new Date(Date.now() + 1_000).toISOString()
  const now = await runJson<Schedule>(['schedules', 'add', 'all', 'All now', '--at', at], env)
  await eventually('it has fired', async () => {
    const { runs } = await runJson<{ runs: ScheduledRun[] }>(['schedules', 'runs', now.id], env)
    return runs[0]?.goalId != null
  })
  for (const { id } of [made, now]) await runJson(['schedules', 'remove', id], env)
  const gone = await runCommand(['schedules', 'show', made.id], env)
  expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining('no such schedule')])
  const wrong = await runCommand(['schedules', 'add', 'atlas', 'x', '--cron', 'daily'], env)
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('five fields')])
})
