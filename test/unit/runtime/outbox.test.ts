/** Rows of the outbox become records in the order of their commits, whatever happens in between. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { EventLog, NewRecord } from '#engines/event-log/port.ts'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { createCodec } from '#runtime/codec.ts'
import { acquireLease } from '#runtime/leases.ts'
import { outboxLeaseName, publishOutbox, writeOutbox } from '#runtime/outbox.ts'
import { createPublisher } from '#runtime/publisher.ts'
import type { AgentChange } from '#schemas/types.ts'
import { migrationFolders } from '#services/migrations.ts'
import { agentsChanges, catalog } from '#topics/catalog.ts'
import { createMemoryRegistry } from '../../support/memory-registry.ts'
import { openEmptyRelational, silentLog } from '../../support/relational.ts'

let relational: Relational
beforeAll(async () => {
  relational = await openEmptyRelational()
  await migrate(relational, silentLog, migrationFolders)
})
afterAll(() => relational.close())
beforeEach(() => relational.query('delete from platform.leases; delete from platform.outbox'))

const locations = new Map(
  catalog.map(({ name, partitions }) => [name, { physicalName: name, epoch: 1, partitions }]),
)

/** A publisher over a log that keeps records in memory and refuses as long as `faults` lasts. */
function openPublisher() {
  const stored: (NewRecord & { partition: number })[] = []
  const state = { stored, faults: 0 }
  const append: EventLog['append'] = async (_topic, partition, records) => {
    if (state.faults-- > 0) throw new AppError('log_unavailable', 'The event log does not answer.')
    stored.push(...records.map((record) => ({ ...record, partition })))
    return stored.length
  }
  const codec = createCodec(createMemoryRegistry())
  const publisher = createPublisher({
    eventLog: { append } as unknown as EventLog,
    codec,
    locations,
    producerName: 'outbox-publisher',
  })
  async function changes(): Promise<AgentChange[]> {
    return Promise.all(
      stored.map(async (record) => {
        const full = { ...record, offset: 0, timestamp: 0, headers: record.headers ?? {} }
        return (await codec.decode(agentsChanges, full)).value as AgentChange
      }),
    )
  }
  return { state, publisher, changes }
}

const change = (agentId: string, version: number): AgentChange => ({
  uid: `uid-${agentId}`,
  agent_id: agentId,
  change: 'tier',
  name: agentId,
  role: 'r',
  access: 'member',
  tier: 'agent',
  quota: null,
  public_key_fingerprint: 'SHA256:x',
  version,
  occurred_at: 1,
})
const write = (agentId: string, version: number) =>
  relational.transaction((tx) =>
    writeOutbox(tx, {
      topic: 'agents.changes',
      key: agentId,
      eventId: `${agentId}-${version}`,
      value: change(agentId, version),
      headers: { agent: agentId },
    }),
  )
const rowsLeft = async () =>
  (await relational.query<{ n: number }>('select count(*) as n from platform.outbox')).rows[0]!.n

test('rows become typed records under their own event ids, and are gone afterwards', async () => {
  const { state, publisher, changes } = openPublisher()
  await write('whale', 1)
  expect(await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).toBe(1)
  expect(await changes()).toEqual([change('whale', 1)])
  const [record] = state.stored
  expect(record!.key!.toString()).toBe('whale')
  expect(record!.headers).toMatchObject({
    'event-id': 'whale-1',
    agent: 'whale',
    producer: 'outbox-publisher',
  })
  expect(await rowsLeft()).toBe(0)
  expect(await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).toBe(0)
})

test('every key keeps the order of its commits, over many batches', async () => {
  const { publisher, changes } = openPublisher()
  await relational.query(
    `insert into platform.outbox (topic, key, event_id, value)
     select 'agents.changes', 'agent-' || n % 7, n::text,
       jsonb_set(jsonb_set($1::jsonb, '{version}', to_jsonb(n)), '{agent_id}', to_jsonb('agent-' || n % 7))
     from generate_series(1, 1300) n`,
    [JSON.stringify(change('x', 0))],
  )
  expect(await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).toBe(1300)
  const seen = new Map<string, number>()
  for (const { agent_id, version } of await changes()) {
    expect(version).toBeGreaterThan(seen.get(agent_id) ?? 0)
    seen.set(agent_id, version)
  }
  expect(seen.size).toBe(7)
})

test('a null value is a tombstone', async () => {
  const { state, publisher } = openPublisher()
  await relational.transaction((tx) =>
    writeOutbox(tx, { topic: 'agents.changes', key: 'gone', eventId: 'e', value: null }),
  )
  await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })
  expect(state.stored[0]!.value).toBeNull()
})

test('while the log is away rows stay; afterwards they are published under the same ids', async () => {
  const { state, publisher } = openPublisher()
  await write('whale', 1)
  state.faults = 1
  await expect(publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).rejects.toMatchObject({
    code: 'log_unavailable',
  })
  expect(await rowsLeft()).toBe(1)
  expect(await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).toBe(1)
  expect(state.stored.map((record) => record.headers!['event-id'])).toEqual(['whale-1'])
})

test('nothing is done while another process publishes', async () => {
  const { state, publisher } = openPublisher()
  await write('whale', 1)
  await acquireLease(relational, outboxLeaseName, 'other', 60_000)
  expect(await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).toBeNull()
  expect(state.stored).toEqual([])
  expect(await rowsLeft()).toBe(1)
})

test('two at once never publish a row twice', async () => {
  const { state, publisher } = openPublisher()
  for (let n = 1; n <= 20; n++) await write('whale', n)
  await Promise.all(
    ['a', 'b', 'c'].map((holder) => publishOutbox({ relational, publisher, log: silentLog, holder })),
  )
  expect(state.stored).toHaveLength(20)
})

test('a row that its topic refuses holds back its own key and nothing else', async () => {
  const { publisher, changes } = openPublisher()
  await write('whale', 1)
  await relational.query(
    `insert into platform.outbox (topic, key, event_id, value) values
     ('agents.changes', 'pulse', 'bad', '{"not": "a change"}'), ('no.such.topic', 'k', 'bad2', '{}')`,
  )
  await write('pulse', 2)
  await write('whale', 2)
  expect(await publishOutbox({ relational, publisher, log: silentLog, holder: 'a' })).toBe(2)
  expect((await changes()).map(({ agent_id, version }) => [agent_id, version])).toEqual([
    ['whale', 1],
    ['whale', 2],
  ])
  const { rows } = await relational.query('select event_id from platform.outbox order by id')
  expect(rows).toEqual([{ event_id: 'bad' }, { event_id: 'bad2' }, { event_id: 'pulse-2' }])
})
