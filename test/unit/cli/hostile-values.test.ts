/** Values of others in what commands print: none acts on the terminal, none begins a line of its own. */

import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { type Cli, type Printing, reportError } from '../../../cli/cli.ts'
import { layOut, type Screen, unlimited } from '../../../cli/layout.ts'
import { createOutput, line, print } from '../../../cli/output.ts'
import { buildProgram } from '../../../cli/program.ts'
import { runCommand } from '../../support/command-line.ts'

const bad = 'x\x1b]0;title\x07\x9b2J\u202e\u2066\r\nforged\nforged  line\u2028forged\u2029forged\rforged'
const unsafe = /(?!\n)[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|^forged/mu

/** Colours are marked by letters that no value has. */
const terminal: Screen = { columns: 60, now: Date.now(), paint: (_, text) => `‹${text}›` }

/** What a command shows of this result. */
async function rendered(args: string[], result: object, screen?: Screen): Promise<string> {
  let text = ''
  const run = async (_operation: unknown, _args: unknown, { render, item }: Printing<object, unknown>) => {
    const items = (result as { items?: unknown[] }).items ?? []
    const shown = [
      ...items.map((one) => item!(one, screen ?? unlimited)),
      render(result, screen ?? unlimited),
    ]
    text = shown.map((one) => (typeof one === 'string' ? one : layOut(one, screen))).join('\n')
    return result
  }
  const cli = {
    env: { FLOTILLA_HOME: '/nowhere' },
    signal: new AbortController().signal,
    run,
    exitCode: 0,
  } as unknown as Cli
  const program = await buildProgram(cli, args)
  await program.parseAsync(args, { from: 'user' })
  return text
}

const agent = { agent_id: bad, uid: bad, name: bad, role: bad, access: bad, tier: bad }
const keyFile = { public_key_fingerprint: bad, private_key_file: bad }
const note = { id: 1, subject: bad, body: bad, author: bad, priority: bad, status: bad, thread_id: bad }
const goal = { id: 1, title: bad, description: bad, author: bad, priority: bad, status: bad, updated_at: bad }
const error = { code: bad, message: bad, retryable: false }
const run = {
  ...{ runId: bad, appName: bad, userId: bad, sessionId: bad, status: bad, trigger: bad, createdAt: bad },
  ...{ message: bad, error, joined: [{ agent: bad, runId: bad }], skipped: [{ agent: bad, reason: bad }] },
}
const session = {
  ...{ sessionId: bad, userId: bad, agents: [bad], runs: 1, createdAt: bad, lastAt: bad },
  ...{ lastMessage: bad, lastStatus: bad },
}
const dispatch = { goalId: 1, userId: bad, status: bad, result: bad, runs: [{ agent: bad, ...run }] }
const event = {
  ...{ id: bad, author: bad, invocationId: bad, timestamp: 1, errorCode: bad, errorMessage: bad },
  content: { parts: [{ text: bad }, { functionCall: { name: bad } }] },
}
const key = { id: bad, agent_id: bad, label: bad, created_at: bad, last_used_at: null, revoked_at: null }
const user = { uid: bad, email: bad, name: bad, role: bad, signs_in_with: [bad], signed_in_at: bad }
const shownAgent = {
  ...{ ...agent, ...keyFile },
  sessions: [{ key: bad, created_at: bad, expires_at: bad }],
  operations: [{ occurred_at: bad, operation: bad, collection: bad, outcome: bad, took_ms: 1, count: 1 }],
  limits: { day: { limit: 1, used: 1 }, burst: { limit: 1 }, concurrent: { limit: 1 } },
}
const stuck = { partition: 1, offset: 2, key: bad, reason: bad, skip: false }
const group = { group: bad, topic: bad, members: 1, lag: 1, partitions: [{ expired: 1 }], stuck: [stuck] }
const letter = {
  ...{ topic: bad, key: bad, recordKey: bad, attempts: 1, parkedAt: bad, reason: bad, value: { text: bad } },
  ...{ target: bad, sequence: 1, event: bad, agent: bad, task_id: bad, parked_at: bad, body: bad },
}
const refused = { ...letter, status: 'refused', code: 'conflict', message: bad }
const target = {
  target: bad,
  state: bad,
  lag: 1,
  breaker: bad,
  next_attempt_at: bad,
  last_fault: bad,
  last_at: bad,
}
const skipped = { group: bad, partition: 1, offset: 2, key: bad, operation: bad, dead_letter: bad }
const counted = { topic: bad, records: 1, position: bad }

const schedule = {
  ...{
    id: bad,
    name: bad,
    agent: bad,
    dispatch: false,
    message: bad,
    cron: bad,
    timezone: bad,
    at: bad,
    session: bad,
  },
  ...{
    missed: 'skip',
    paused: true,
    pausedReason: bad,
    endsAt: bad,
    nextAt: bad,
    lastAt: bad,
    lastRunId: bad,
  },
  ...{ lastGoalId: null, failures: 1, owner: bad, createdAt: bad, updatedAt: bad },
}
const fired = {
  plannedAt: bad,
  firedAt: bad,
  runId: bad,
  goalId: null,
  status: bad,
  error: { code: bad, message: bad },
}

const commands: [words: string, result: object][] = [
  ['notes list', { notes: [note] }],
  ['notes show 1', { note, thread: [note] }],
  ['notes add s --body b', note],
  ['notes reply 1 --body b', note],
  ['goals list', { goals: [goal] }],
  ['goals show 1', goal],
  ['goals add t', goal],
  ['goals set 1 --title t', goal],
  ['runs list', { runs: [run] }],
  ['runs show r', { run, events: [{ seq: 1, runId: bad, event }] }],
  ['runs show 1', { dispatch }],
  ['runs cancel r', { run }],
  ['sessions list', { sessions: [session] }],
  ['sessions show s', { events: [event] }],
  ['sessions delete s', session],
  ['runs cancel 1', { dispatch }],
  ['schedules add a t', schedule],
  ['schedules list', { schedules: [schedule] }],
  ['schedules show s', schedule],
  ['schedules pause s', schedule],
  ['schedules resume s', schedule],
  ['schedules remove s', schedule],
  ['schedules runs s', { runs: [fired] }],
  ['agents list', { agents: [{ ...agent, ...keyFile }] }],
  ['agents show a', shownAgent],
  ['agents provision --agent-id a', { ...agent, ...keyFile }],
  ['agents update a --name n', agent],
  ['agents rotate a', { ...agent, ...keyFile }],
  ['agents delete a', agent],
  ['agents tier a agent', agent],
  ['agent-keys issue a', { ...key, key: bad }],
  ['agent-keys list', { agent_keys: [key] }],
  ['agent-keys revoke k', key],
  ['users add a@example.com', { ...user, oidc_subject: bad, one_time_password: null }],
  ['users list', { users: [user] }],
  ['users role a@example.com admin', user],
  ['users remove a@example.com', user],
  ['lag', { as_of: 'now', groups: [group] }],
  ['lag --watch', { as_of: 'now', groups: [], items: [{ as_of: 'now', groups: [group] }] }],
  ['topics tail audit.events', { records: [letter], items: [letter] }],
  ['topics grow audit.events --partitions 24', { topic: bad, partitions: 24, physical_name: bad, epoch: 1 }],
  ['groups reset g --to end', { positions: [{ partition: 0, offset: bad }] }],
  ['groups skip g --partition 1 --offset 2', { ...skipped, outcome: 'parked' }],
  ['groups skip g --partition 1 --offset 2', { ...skipped, outcome: 'waiting' }],
  ['dead-letters list', { dead_letters: [letter] }],
  ['dead-letters show --key k', { dead_letters: [letter] }],
  ['dead-letters replay --key k', { results: [refused] }],
  ['webhooks dead-letters list', { dead_letters: [letter] }],
  ['webhooks dead-letters show', { dead_letters: [letter] }],
  ['webhooks dead-letters discard --all', { results: [refused] }],
  ['webhooks targets', { targets: [target], couriers: 0, file: { path: bad, readable: false } }],
  ['webhooks skip t', { target: bad, sequence: 1, outcome: 'parked' }],
  ['webhooks forget t', { target: bad, partition: 1, discarded: 1, dead_letters: 1 }],
  ['rebuild vectors', { index: bad, generation: 2, took_ms: 1 }],
  ['secrets rotate', { secrets: 1, key_id: bad, kept_in: bad }],
  [
    'stats',
    { collections: [{ collection: bad, points: 1, index_status: bad, indexed_share: 1 }], search: null },
  ],
  ['sink jsonl hub.records --to copies --no-follow', counted],
  ['sink postgres hub.records --url postgres://x --no-follow', counted],
]

describe('a hostile value', () => {
  it.each(commands)('is shown by %s as text in its place', async (words, result) => {
    const text = await rendered(words.split(' '), result)
    expect(text).toMatch(/\S/)
    expect(text).not.toMatch(unsafe)
    expect(await rendered(words.split(' '), result, terminal)).not.toMatch(unsafe)
  })
})

describe('what all commands print with', () => {
  afterEach(() => void vi.restoreAllMocks())

  it('keeps values in their cells, fields and lines', () => {
    const rows = [
      [bad, 1],
      [null, bad],
    ]
    const shown = [
      { head: ['a', 'status'], rows },
      { head: ['a', 'b'], rows, wrap: true as const },
      { fields: { name: bad, list: [bad], body: bad, at_at: bad }, texts: ['body'] },
      { documents: [bad] },
      { lines: `a ${bad.replaceAll('\n', '')}` },
      line`a ${bad} b ${null} ${1}`,
    ]
    for (const screen of [unlimited, terminal, { ...terminal, columns: 1 }])
      expect(layOut(shown, screen)).not.toMatch(unsafe)
    expect(layOut({ fields: { a: 'x\ny', body: 'x\ny' }, texts: ['body'] })).toBe(
      'a     x\\ny\nbody  x\n      y',
    )
    expect(line`a ${'b\n'} ${null} ${1}`).toBe('a b\\n null 1')
  })

  it('lets nothing through that a render forgot', () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {})
    print('one\n\ttwo\x1b[2J\u202e\x9b')
    expect(log.mock.calls).toEqual([['one\n\ttwo\\x1b[2J\\u202e\\x9b']])
  })

  it('shows errors with their further lines indented', () => {
    const error = vi.spyOn(console, 'error').mockImplementation(() => {})
    reportError(new AppError('not_found', `There is no ${bad}.`), false)
    expect(error.mock.calls[0]![0]).not.toMatch(unsafe)
    reportError(new AppError('invalid_configuration', 'Mend it:\n  line 1: a\nline 2: b'), false)
    expect(error.mock.calls[1]).toEqual(['invalid_configuration: Mend it:\n  line 1: a\n  line 2: b'])
  })

  it('shows mistyped input as text', async () => {
    for (const args of [
      ['notes', 'show', bad],
      ['runs', 'list', '--limit', bad],
      ['lag', `--${bad}`],
      [bad],
    ]) {
      const { code, stderr } = await runCommand(args, {})
      expect(code).toBe(2)
      expect(stderr).not.toMatch(unsafe)
    }
  })

  it('shows input mistyped for local search as text', () => {
    const root = join(import.meta.dirname, '../../..')
    const code = `
      const { runCommand } = await import('#stidx/command/run.ts')
      process.exitCode = runCommand(process.argv.slice(1), {})`
    for (const args of [[bad], ['search', `--${bad}`]]) {
      // Its output bypasses the streams of this process.
      const words = ['--input-type=module', '-e', code, '--', ...args]
      const { status, stderr } = spawnSync(process.execPath, words, { cwd: root, encoding: 'utf8' })
      expect(status).toBe(2)
      expect(stderr).toContain('title')
      expect(stderr).not.toMatch(unsafe)
    }
  })

  it('shows the label of a load as text', () => {
    const { isTTY } = process.stderr
    const write = vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
    process.stderr.isTTY = true
    try {
      const output = createOutput(() => {})
      output.progress({ label: `copying \u202e{value}\nforged`, done: 1, total: 2 })
      output.end()
    } finally {
      process.stderr.isTTY = isTTY
    }
    expect(write.mock.calls.map(([part]) => String(part)).join('')).toContain(
      'copying \\u202e{value}\\nforged',
    )
  })

  it('is the only file that writes', () => {
    const folder = join(import.meta.dirname, '../../../cli')
    const files = readdirSync(folder, { recursive: true })
      .map(String)
      // main.ts ends the process when all is written.
      .filter((name) => name.endsWith('.ts') && name !== 'output.ts' && name !== 'main.ts')
    const writing = files.filter((name) =>
      /\bconsole\.\w|\bstd(out|err)\.write\b/.test(readFileSync(join(folder, name), 'utf8')),
    )
    expect(writing).toEqual([])
  })
})
