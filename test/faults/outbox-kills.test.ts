/**
 * The outbox-publisher is killed at each step of a batch. The next one publishes the remaining rows: nothing is
 * missing, every note and goal has its versions in order, and its last record is its row.
 */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withOutbox } from '#runtime/publish/outbox.ts'
import { RefusedKeys } from '#runtime/publish/refused-keys.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { createGoal, goalKind } from '#services/records/goals/goals.ts'
import { createNote, noteKind } from '#services/records/notes/notes.ts'
import type { Author } from '#services/records/store/kind.ts'
import { changeRecord } from '#services/records/store/write.ts'
import { hubRecords } from '#topics/catalog.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { readAll } from '../contract/event-log/world.ts'
import { databaseUrl, registryUrl } from '../support/servers.ts'
import { killSteps } from './outbox-kills-child.ts'

const childFile = fileURLToPath(new URL('./outbox-kills-child.ts', import.meta.url))
const by: Author = { name: 'whale', uid: 'uid-whale', isAdmin: true }
const home = mkdtempSync(join(tmpdir(), 'fl-'))

let kafka: KafkaCluster
let platform: Platform
let env: Record<string, string>
beforeAll(async () => {
  kafka = await openKafkaCluster(1)
  env = {
    KAFKA_BROKERS: kafka.brokers.join(','),
    SCHEMA_REGISTRY_URL: await registryUrl(),
    DATABASE_URL: await databaseUrl(),
    FLOTILLA_HOME: home,
  }
  const log = pino({ level: 'silent' })
  const migrations = migrationFolders
  platform = await openPlatform({ env, needs: [], migrations, producerName: 'test', log, lock: false })
})
afterAll(async () => {
  await platform?.close()
  await kafka?.close()
  rmSync(home, { recursive: true, force: true })
})

const ids: { note: number; goal: number }[] = []

/** Some new notes and goals, and further versions of those that are there. */
async function write(round: number): Promise<void> {
  const { relational } = platform.engines
  for (let n = 0; n < 3; n++) {
    const note = await createNote(relational, { subject: `s${round}`, body: 'b' }, by)
    const goal = await createGoal(relational, { title: `t${round}` }, by)
    ids.push({ note: note.id, goal: goal.id })
  }
  for (const { note, goal } of ids) {
    await changeRecord(relational, noteKind, { id: note, changes: { body: `b${round}` }, by })
    await changeRecord(relational, goalKind, { id: goal, changes: { description: `d${round}` }, by })
  }
}

async function killAt(step: string): Promise<void> {
  const { PATH = '', HOME = '' } = process.env
  const child = fork(childFile, [step], { env: { PATH, HOME, ...env } })
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
  expect([step, signal]).toEqual([step, 'SIGKILL'])
  // As if its lease had run out.
  await platform.engines.relational.query(
    "update platform.leases set expires_at = now() - interval '1 second'",
  )
}

async function publishRest(): Promise<void> {
  const { engines, publisher, log } = platform
  const parts = { relational: engines.relational, publisher, log, holder: 'next', refused: new RefusedKeys() }
  await withOutbox(parts, (outbox) => outbox.publish())
}

const rowsLeft = async () =>
  (await platform.engines.relational.query<{ n: number }>('select count(*) as n from platform.outbox'))
    .rows[0]!.n

test('nothing is lost or out of order, at whatever step it is killed', async () => {
  for (const [round, step] of killSteps.entries()) {
    await write(round)
    const before = await rowsLeft()
    await killAt(step)
    if (step === 'deleted') expect(await rowsLeft()).toBe(0)
    else if (step !== 'deleting') expect(await rowsLeft()).toBe(before)
    // Newer versions come before anybody publishes again.
    if (round % 2) await write(round)
    await publishRest()
    expect(await rowsLeft()).toBe(0)
    await expectRecords()
  }
}, 240_000)

/** Versions of each note and goal in the order in which their events first came; the last record is the row. */
async function expectRecords(): Promise<void> {
  const { engines, codec, publisher } = platform
  const found = new Map<string, { first: number[]; last: number }>()
  const events = new Set<string>()
  for (const record of await readAll(engines.eventLog, publisher.locationOf(hubRecords).physicalName)) {
    const { key, value, headers } = await codec.decode(hubRecords, record)
    if (!value) continue
    const of = found.get(key) ?? { first: [], last: 0 }
    found.set(key, of)
    of.last = value.version
    if (!events.has(headers['event-id']!)) of.first.push(value.version)
    events.add(headers['event-id']!)
  }
  const { rows } = await engines.relational.query<{ key: string; version: number }>(
    `select 'note/' || id as key, version from platform.notes
     union all select 'goal/' || id, version from platform.goals`,
  )
  expect([...found.keys()].sort()).toEqual(rows.map(({ key }) => key).sort())
  for (const { key, version } of rows) {
    const { first, last } = found.get(key)!
    expect([key, first, last]).toEqual([key, Array.from({ length: version }, (_, n) => n + 1), version])
  }
}
