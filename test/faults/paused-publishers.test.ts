/**
 * A publisher is paused by SIGSTOP in the middle of a send, for longer than its lease or session; another one takes over
 * and publishes newer versions. When the first one goes on, nothing of it lands behind them.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { writeOutbox } from '#runtime/publish/outbox.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import type { AgentChange, AuditEvent, HubRecord } from '#schemas/types.ts'
import { migrationFolders } from '#services/migrations.ts'
import { auditEvent } from '#test/support/audit-event.ts'
import { agentsChanges, auditEvents, hubRecords, vectorsCommands } from '#topics/catalog.ts'
import type { KeyedTopic, SchemaName } from '#topics/topic.ts'
import { readAll } from '../contract/event-log/world.ts'
import { openAwayStack } from '../support/away-stack.ts'
import { eventually } from '../support/eventually.ts'
import type { Notice } from './paused-publishers-child.ts'

const childFile = fileURLToPath(new URL('./paused-publishers-child.ts', import.meta.url))
/** A lease of 15 s or a session of 6 s; the rest is for a busy machine. */
const takeoverMsMax = 90_000

const stack = openAwayStack()
let platform: Platform
let env: Record<string, string>
const home = mkdtempSync(join(tmpdir(), 'fl-'))

async function open(): Promise<void> {
  env = { ...(await stack.newEnvironment()).env, FLOTILLA_HOME: home, AUDIT_RETENTION_DAYS: '0' }
  platform = await openPlatform({
    env,
    needs: [],
    migrations: migrationFolders,
    producerName: 'test',
    log: pino({ level: 'silent' }),
    lock: false,
  })
}

beforeAll(open)

afterAll(async () => {
  await platform?.close()
  rmSync(home, { recursive: true, force: true })
})

function startWorker(name: string, ...more: string[]): ChildProcess {
  const { PATH = '', HOME = '' } = process.env
  const child = fork(childFile, [name, ...more], { env: { PATH, HOME, ...env }, execPath: process.execPath })
  onTestFinished(async () => {
    if (child.exitCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  return child
}

/** Starts the worker, which pauses itself before it sends; the outcome of that send comes when it goes on. */
async function pauseWhileSending(name: string): Promise<{ child: ChildProcess; outcome: Promise<string> }> {
  const child = startWorker(name, 'hold')
  const sending = Promise.withResolvers<void>()
  const outcome = Promise.withResolvers<string>()
  child.on('message', (notice: Notice) => {
    if (notice === 'sending') sending.resolve()
    else outcome.resolve(notice.outcome)
  })
  await sending.promise
  return { child, outcome: outcome.promise }
}

/** The values of all records of a topic, as they lie in the log. */
async function valuesOf<S extends SchemaName>(topic: KeyedTopic<never, S>) {
  const { engines, codec, publisher } = platform
  const records = await readAll(engines.eventLog, publisher.locationOf(topic).physicalName)
  return Promise.all(records.map(async (record) => (await codec.decode(topic, record)).value))
}

test('an outbox-publisher that was paused in a send puts no older version behind a newer one', async () => {
  const change = (version: number): AgentChange => ({
    uid: 'uid-whale',
    agent_id: 'whale',
    change: 'tier',
    name: 'whale',
    role: 'r',
    access: 'member',
    tier: 'agent',
    quota: null,
    burst: null,
    concurrent: null,
    public_key_fingerprint: 'SHA256:x',
    version,
    occurred_at: 1,
    agent_key_id: null,
  })
  const { relational } = platform.engines
  const write = (version: number) =>
    relational.transaction((tx) =>
      writeOutbox(tx, {
        topic: agentsChanges.name,
        key: 'whale',
        eventId: `whale-${version}`,
        value: change(version),
      }),
    )
  const published = async () => (await relational.query('select 1 from platform.outbox')).rowCount === 0

  await write(1)
  const paused = await pauseWhileSending('outbox-publisher')
  startWorker('outbox-publisher')
  await eventually('the other one publishes', published, takeoverMsMax)
  await write(2)
  await eventually('it publishes the newer version', published, takeoverMsMax)
  paused.child.kill('SIGCONT')
  expect(await paused.outcome).toBe('fenced')
  expect((await valuesOf(agentsChanges)).map((value) => value?.version)).toEqual([1, 2])
}, 240_000)

test('an audit-writer that was paused in a send puts no beginning behind an end', async () => {
  const ended = (n: number) =>
    auditEvent({ event_id: `0199aaaa-0000-7000-8000-00000000000${n}`, occurred_at: Date.now() })
  const add = (value: AuditEvent) =>
    platform.publisher.publish(auditEvents, [{ key: 'scout', value }], { partition: 3 })
  const committed = async () => {
    const { eventLog } = platform.engines
    const state = await eventLog.groupState(
      'audit-writer',
      platform.publisher.locationOf(auditEvents).physicalName,
    )
    return state.committed.find(({ partition }) => partition === 3)?.offset
  }
  const statuses = async () =>
    (await valuesOf(vectorsCommands)).map((value) => JSON.parse(value?.payload ?? '{}').status)

  await add({ ...ended(1), phase: 'begun', outcome: 'unknown', status_code: null, took_ms: null })
  const paused = await pauseWhileSending('audit-writer')
  startWorker('audit-writer')
  await eventually('the other one writes the beginning', async () => (await committed()) === 1, takeoverMsMax)
  await add(ended(1))
  await eventually('it writes the end', async () => (await committed()) === 2, takeoverMsMax)
  paused.child.kill('SIGCONT')
  expect(await paused.outcome).toBe('fenced')
  expect(await statuses()).toEqual(['active', 'resolved'])
  // The new owner of the partition goes on, though the one that was paused asked for the name once more.
  await add(ended(2))
  await eventually('a further note', async () => (await committed()) === 3, takeoverMsMax)
  expect((await statuses()).at(-1)).toBe('resolved')
}, 300_000)

test('a note-indexer that was paused in a send puts no older version of a note behind a newer one', async () => {
  const { relational, eventLog } = platform.engines
  const note = (version: number): HubRecord => ({
    kind: 'note',
    id: 1,
    version,
    author: 'whale',
    title: `version ${version}`,
    text: 'text',
    priority: 'normal',
    status: 'active',
    thread_id: '0199aaaa-0000-4000-8000-000000000001',
    parent_id: null,
    created_at: 1,
    updated_at: version,
  })
  const add = (version: number) =>
    platform.publisher.publish(hubRecords, [{ key: { kind: 'note', id: 1 }, value: note(version) }])
  const committed = async () => {
    const state = await eventLog.groupState(
      'note-indexer',
      platform.publisher.locationOf(hubRecords).physicalName,
    )
    return state.committed.reduce((sum, { offset }) => sum + offset, 0)
  }
  const titles = async () =>
    (await valuesOf(vectorsCommands))
      .map((value) => JSON.parse(value?.payload ?? '{}').title as string)
      .filter((title) => title.startsWith('version '))
  await relational.query(
    `insert into platform.notes (thread_id, subject, body, priority, status, author, author_uid)
     values ('0199aaaa-0000-4000-8000-000000000001', 's', 'b', 'normal', 'active', 'whale', 'uid')`,
  )

  await add(1)
  const paused = await pauseWhileSending('note-indexer')
  startWorker('note-indexer')
  await eventually('the other one writes the first', async () => (await committed()) === 1, takeoverMsMax)
  await add(2)
  await eventually('it writes the second', async () => (await committed()) === 2, takeoverMsMax)
  paused.child.kill('SIGCONT')
  expect(await paused.outcome).toBe('fenced')
  expect(await titles()).toEqual(['version 1', 'version 2'])
  // A repeated record, as after a kill of the outbox-publisher, is older than the row by then.
  await relational.query('update platform.notes set version = 3')
  await add(1)
  await add(3)
  await eventually('all are handled', async () => (await committed()) === 4, takeoverMsMax)
  expect(await titles()).toEqual(['version 1', 'version 2', 'version 3'])
}, 300_000)
