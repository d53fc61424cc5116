/** Rows of the outbox become records in the order of their commits, whatever happens in between. */

import { Writable } from 'node:stream'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import type { EventLog, NewRecord } from '#engines/event-log/port.ts'
import { migrate } from '#engines/relational/migrate.ts'
import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { acquireLease } from '#runtime/leases.ts'
import { lookSeldomMs } from '#runtime/notices.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import { type OutboxParts, outboxLeaseName, withOutbox, writeOutbox } from '#runtime/publish/outbox.ts'
import { createPublisher } from '#runtime/publish/publisher.ts'
import { RefusedKeys } from '#runtime/publish/refused-keys.ts'
import type { ServiceHost } from '#runtime/start/service.ts'
import type { AgentChange } from '#schemas/types.ts'
import { migrationFolders } from '#services/migrations.ts'
import { outboxPublisher } from '#services/outbox/publisher/service.ts'
import { topicSpec } from '#test/support/topic-spec.ts'
import { agentsChanges, catalog } from '#topics/catalog.ts'
import { eventually } from '../../../support/eventually.ts'
import { createMemoryLog } from '../../../support/memory-log.ts'
import { createMemoryRegistry } from '../../../support/memory-registry.ts'
import { openEmptyRelational, silentLog } from '../../../support/relational.ts'

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

/** Publishers over one log in memory; a test may stop appends before they reach it, or refuse them. */
async function openWorld() {
  const log = createMemoryLog()
  for (const { name, partitions } of catalog) {
    await log.createTopic(topicSpec(name, { partitions }))
  }
  const codec = createCodec(createMemoryRegistry())
  const state = { log, appends: 0, lines: [] as Record<string, unknown>[] }
  const lines = new Writable({
    write(line: Buffer, _encoding, done) {
      state.lines.push(JSON.parse(line.toString()))
      done()
    },
  })
  /** The parts of one process; `before` is awaited before each append. */
  function partsOf(holder: string, before: (records: NewRecord[]) => unknown = () => {}): OutboxParts {
    const eventLog: EventLog = {
      ...log,
      async fencedWriter(name) {
        const writer = await log.fencedWriter(name)
        return {
          ...writer,
          async append(topic, partition, records) {
            await before(records)
            state.appends++
            return writer.append(topic, partition, records)
          },
        }
      },
    }
    const publisher = createPublisher({ eventLog, codec, locations, producerName: 'outbox-publisher' })
    return { relational, publisher, log: pino(lines), holder, refused: new RefusedKeys() }
  }
  const stored = () => log.records('agents.changes')
  async function changes(): Promise<AgentChange[]> {
    return Promise.all(
      stored().map(async (record) => (await codec.decode(agentsChanges, record)).value as AgentChange),
    )
  }
  return { state, partsOf, stored, changes }
}

const publishOutbox = (parts: OutboxParts) => withOutbox(parts, (outbox) => outbox.publish())

const change = (agentId: string, version: number): AgentChange => ({
  uid: `uid-${agentId}`,
  agent_id: agentId,
  change: 'tier',
  name: agentId,
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
  const { partsOf, stored, changes } = await openWorld()
  await write('whale', 1)
  expect(await publishOutbox(partsOf('a'))).toBe(1)
  expect(await changes()).toEqual([change('whale', 1)])
  const [record] = stored()
  expect(record!.key!.toString()).toBe('whale')
  expect(record!.headers).toMatchObject({
    'event-id': 'whale-1',
    agent: 'whale',
    producer: 'outbox-publisher',
  })
  expect(await rowsLeft()).toBe(0)
  expect(await publishOutbox(partsOf('a'))).toBe(0)
})

test('every key keeps the order of its commits, over many batches', async () => {
  const { partsOf, changes } = await openWorld()
  await relational.query(
    `insert into platform.outbox (topic, key, event_id, value)
     select 'agents.changes', 'agent-' || n % 7, n::text,
       jsonb_set(jsonb_set($1::jsonb, '{version}', to_jsonb(n)), '{agent_id}', to_jsonb('agent-' || n % 7))
     from generate_series(1, 1300) n`,
    [JSON.stringify(change('x', 0))],
  )
  expect(await publishOutbox(partsOf('a'))).toBe(1300)
  const seen = new Map<string, number>()
  for (const { agent_id, version } of await changes()) {
    expect(version).toBeGreaterThan(seen.get(agent_id) ?? 0)
    seen.set(agent_id, version)
  }
  expect(seen.size).toBe(7)
})

test('a row that commits late, with a lower id than others have, comes before later rows of its key', async () => {
  const { partsOf, changes } = await openWorld()
  const insert = (id: number, agentId: string, version: number) =>
    relational.query(
      `insert into platform.outbox (id, topic, key, event_id, value) overriding system value
       values ($1, 'agents.changes', $2, $3, $4::jsonb)`,
      [id, agentId, `${agentId}-${version}`, JSON.stringify(change(agentId, version))],
    )
  await insert(2_000_000, 'other', 1)
  let late = false
  const parts = partsOf('a', async () => {
    if (late) return
    late = true
    await insert(1_000_000, 'whale', 1)
    await insert(3_000_000, 'whale', 2)
  })
  expect(await publishOutbox(parts)).toBe(3)
  const ofWhale = (await changes()).filter(({ agent_id }) => agent_id === 'whale')
  expect(ofWhale.map(({ version }) => version)).toEqual([1, 2])
})

test('a batch ends with 4 MiB, too, and a row that is larger goes alone', async () => {
  const { partsOf, changes } = await openWorld()
  const sizes = [1, 2, 2, 5, 0, 0]
  for (const [version, mebibytes] of sizes.entries()) {
    const value = { ...change('whale', version), name: 'x'.repeat(mebibytes * 1024 * 1024) }
    await relational.query(
      "insert into platform.outbox (topic, key, event_id, value) values ('agents.changes', 'whale', $1, $2::jsonb)",
      [`whale-${version}`, JSON.stringify(value)],
    )
  }
  const batches: number[] = []
  expect(await publishOutbox(partsOf('a', (records) => batches.push(records.length)))).toBe(6)
  expect(batches).toEqual([3, 1, 2])
  expect((await changes()).map(({ version }) => version)).toEqual([0, 1, 2, 3, 4, 5])
})

test('a null value is a tombstone', async () => {
  const { partsOf, stored } = await openWorld()
  await relational.transaction((tx) =>
    writeOutbox(tx, { topic: 'agents.changes', key: 'gone', eventId: 'e', value: null }),
  )
  await publishOutbox(partsOf('a'))
  expect(stored()[0]!.value).toBeNull()
})

test('while the log is away rows stay; afterwards they are published under the same ids', async () => {
  const { state, partsOf, stored } = await openWorld()
  await write('whale', 1)
  state.log.away = true
  await expect(publishOutbox(partsOf('a'))).rejects.toMatchObject({
    code: 'log_unavailable',
  })
  expect(await rowsLeft()).toBe(1)
  state.log.away = false
  expect(await publishOutbox(partsOf('a'))).toBe(1)
  expect(stored().map((record) => record.headers!['event-id'])).toEqual(['whale-1'])
})

test('nothing is done while another process publishes', async () => {
  const { partsOf, stored } = await openWorld()
  await write('whale', 1)
  await acquireLease(relational, outboxLeaseName, 'other', 60_000)
  expect(await publishOutbox(partsOf('a'))).toBeUndefined()
  expect(stored()).toEqual([])
  expect(await rowsLeft()).toBe(1)
})

test('two at once never publish a row twice', async () => {
  const { partsOf, stored } = await openWorld()
  for (let n = 1; n <= 20; n++) await write('whale', n)
  await Promise.all(['a', 'b', 'c'].map((holder) => publishOutbox(partsOf(holder))))
  expect(stored()).toHaveLength(20)
})

test('a row that its topic refuses holds back its own key and nothing else', async () => {
  const { partsOf, changes } = await openWorld()
  await write('whale', 1)
  await relational.query(
    `insert into platform.outbox (topic, key, event_id, value) values
     ('agents.changes', 'pulse', 'bad', '{"not": "a change"}'), ('no.such.topic', 'k', 'bad2', '{}')`,
  )
  await write('pulse', 2)
  await write('whale', 2)
  expect(await publishOutbox(partsOf('a'))).toBe(2)
  expect((await changes()).map(({ agent_id, version }) => [agent_id, version])).toEqual([
    ['whale', 1],
    ['whale', 2],
  ])
  const { rows } = await relational.query('select event_id from platform.outbox order by id')
  expect(rows).toEqual([{ event_id: 'bad' }, { event_id: 'bad2' }, { event_id: 'pulse-2' }])
})

/** The lease of whoever has it is over. */
const expireLease = () => relational.query('update platform.leases set expires_at = clock_timestamp()')
const versions = (changes: AgentChange[]) => changes.map(({ version }) => version)

test('a holder that was paused in the midst of a publish puts nothing behind what its successor published', async () => {
  const { partsOf, changes } = await openWorld()
  const [sending, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  await write('whale', 1)
  const paused = publishOutbox(
    partsOf('paused', () => {
      sending.resolve()
      return goOn.promise
    }),
  )
  await sending.promise
  await expireLease()
  expect(await publishOutbox(partsOf('next'))).toBe(1)
  await write('whale', 2)
  expect(await publishOutbox(partsOf('next'))).toBe(1)
  goOn.resolve()
  expect(await paused).toBeUndefined()
  expect(versions(await changes())).toEqual([1, 2])
})

test('rows are deleted by the holder of the lease alone: what a former one stored late is published again', async () => {
  const { partsOf, changes } = await openWorld()
  await write('whale', 1)
  const late = partsOf('late', async () => {
    await expireLease()
    await acquireLease(relational, outboxLeaseName, 'next', 60_000)
  })
  expect(await publishOutbox(late)).toBe(0)
  expect(await rowsLeft()).toBe(1)
  await write('whale', 2)
  expect(await publishOutbox(partsOf('next'))).toBe(2)
  expect(versions(await changes())).toEqual([1, 1, 2])
})

async function writeRefused(key: string): Promise<void> {
  await relational.query(
    `insert into platform.outbox (topic, key, event_id, value) values ('agents.changes', $1, $2, '{"no": "change"}')`,
    [key, `bad-${key}`],
  )
}

test('a refused row costs its batch nothing, and is neither tried nor logged again before its key has rested', async () => {
  const { state, partsOf, changes } = await openWorld()
  const clock = vi.spyOn(performance, 'now')
  onTestFinished(() => clock.mockRestore())
  const parts = partsOf('a')
  await writeRefused('pulse')
  for (let n = 0; n < 100; n++) await write(`agent-${n}`, 1)
  await write('pulse', 2)
  expect(await publishOutbox(parts)).toBe(100)
  expect(state.appends).toBeLessThanOrEqual(12)
  for (let pass = 0; pass < 10; pass++) expect(await publishOutbox(parts)).toBe(0)
  expect(state.lines.filter(({ msg }) => msg === 'outbox.row-refused')).toMatchObject([
    { topic: 'agents.changes', rows: 1, againInMs: 1_000 },
  ])
  const rest = (ms: number) => clock.mockReturnValue(performance.now() + ms)
  rest(1_500)
  expect(await publishOutbox(parts)).toBe(0)
  expect(state.lines.filter(({ msg }) => msg === 'outbox.row-refused')).toHaveLength(2)
  // Once the row is mended, it and those behind it follow in their order, when the longer rest is over.
  const mended = JSON.stringify(change('pulse', 1))
  await relational.query(`update platform.outbox set value = $1::jsonb where event_id = 'bad-pulse'`, [
    mended,
  ])
  expect(await publishOutbox(parts)).toBe(0)
  rest(2_500)
  expect(await publishOutbox(parts)).toBe(2)
  expect(versions((await changes()).filter(({ agent_id }) => agent_id === 'pulse'))).toEqual([1, 2])
})

test('a row that the log refuses is found by halving, and holds back its own key alone', async () => {
  const { state, partsOf, changes } = await openWorld()
  const parts = partsOf('a', (records) => {
    if (records.some(({ value }) => value?.includes('too-large'))) {
      throw new AppError('payload_too_large', 'A record is above the limit.')
    }
  })
  for (let n = 0; n < 50; n++) await write('whale', n)
  await write('too-large', 1)
  for (let n = 50; n < 100; n++) await write('whale', n)
  await write('too-large', 2)
  expect(await publishOutbox(parts)).toBe(100)
  expect(state.appends).toBeLessThan(40)
  const last = new Map((await changes()).map(({ agent_id, version }) => [agent_id, version]))
  expect([...last]).toEqual([['whale', 99]])
  expect(await rowsLeft()).toBe(2)
})

test('the service counts refused keys in a metric, and not any more once their rows are mended', async () => {
  const { partsOf, changes } = await openWorld()
  const metrics = new Registry()
  await startPublisher(partsOf('a'), metrics)
  const refused = () => metrics.getSingleMetricAsString('flotilla_outbox_refused_keys')
  await writeRefused('pulse')
  await write('whale', 1)
  await eventually('the others are published', async () => (await changes()).length === 1)
  await eventually('it is counted', async () => / 1$/.test(await refused()))
  await relational.query('update platform.outbox set value = $1::jsonb', [JSON.stringify(change('pulse', 1))])
  await eventually('it is published', async () => (await changes()).length === 2)
  await eventually('it is counted no more', async () => / 0$/.test(await refused()))
})

test('the service hears of a row at once, and asks for none while there is nothing', async () => {
  const { partsOf, changes } = await openWorld()
  // No regular look: only a notice brings a row.
  const { setTimeout: wait } = globalThis
  const withoutLooks = (run: () => void, ms?: number) => wait(run, ms === lookSeldomMs ? 86_400_000 : ms)
  vi.stubGlobal('setTimeout', withoutLooks)
  onTestFinished(() => void vi.unstubAllGlobals())
  let asked = 0
  const query: Relational['query'] = (text, params) => {
    if (text.includes('platform.outbox')) asked++
    return relational.query(text, params)
  }
  await startPublisher({ ...partsOf('a'), relational: { ...relational, query } })
  await eventually('it looks once', () => asked > 0)
  await new Promise((resolve) => setTimeout(resolve, 500))
  const before = asked
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  expect(asked - before).toBeLessThanOrEqual(1)
  await write('pulse', 1)
  await eventually('it is published', async () => (await changes()).length === 1)
})

async function startPublisher(
  { relational, publisher, log }: Pick<OutboxParts, 'relational' | 'publisher' | 'log'>,
  metrics = new Registry(),
): Promise<void> {
  const engines = { relational } as ServiceHost['engines']
  const host = { engines, publisher, log, metrics, instanceId: 'a', env: {}, locations }
  const service = await outboxPublisher.start(host as unknown as ServiceHost)
  onTestFinished(() => service.close())
}
