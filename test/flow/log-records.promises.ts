/**
 * Promises of copies of the log on every engine: the client, the example program and the sinks lose nothing and repeat
 * nothing, whichever process is killed, while an index is rebuilt and after `topics grow`.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openPostgres } from '#engines/relational/postgres.ts'
import { sleep } from '#lib/backoff.ts'
import { installConfluentKafka } from '../../scripts/servers/tools.ts'
import { eventually } from '../support/eventually.ts'
import {
  followNotes,
  type KilledPlatform,
  openKilledPlatform,
  type PythonCopy,
  runPythonCopy,
  untilPublished,
  writeNotes,
} from '../support/log-copies.ts'
import { silentLog } from '../support/relational.ts'
import { databaseUrl } from '../support/servers.ts'

const patienceMs = 120_000

export function describeLogRecords(
  name: string,
  open: () => Promise<{ env: Record<string, string>; close(): Promise<void> }>,
): void {
  describe(`records of the log: ${name}`, () => {
    let engines: Awaited<ReturnType<typeof open>>
    let platform: KilledPlatform
    beforeAll(async () => {
      engines = await open()
      engines.env.SINK_POSTGRES_URL = await databaseUrl()
      platform = await openKilledPlatform(engines.env)
    }, 600_000)
    afterAll(async () => {
      await platform?.close()
      await engines?.close()
    }, 120_000)

    /** Every place of hub.records that the log holds, by page. */
    async function placesHeld(): Promise<string[]> {
      const places: string[] = []
      const held = platform.api.records('hub.records', { follow: false })
      for await (const { partition, offset } of held) places.push(`${partition}/${offset}`)
      return places.sort()
    }

    test('the client and the example programs copy all notes, through kills, a rebuild and topics grow', async () => {
      const { api, home, processes } = platform
      const writing = writeNotes(api)
      const client = followNotes(api)
      const programs = (await programsFor(platform, engines.env)).map((program) =>
        runPythonCopy(home, program),
      )
      onTestFinished(async () => {
        await Promise.all([writing.stop(), client.stop(), ...programs.map(({ kill }) => kill())])
      })
      for (let round = 0; round < 2; round++) {
        const before = writing.written()
        await eventually('more is written', () => writing.written() > before + 15, patienceMs)
        for (const program of programs) {
          await program.kill()
          program.start()
        }
        await sleep(100)
        await platform.killAndStart()
      }
      await writing.stop()
      const rebuilt = processes.run(['rebuild', 'vectors'], home)
      await processes.run(['rebuild', 'notes'], home)
      await rebuilt
      const active = await untilPublished(api)
      expect(active.length).toBeGreaterThan(15)
      const held = await placesHeld()
      await eventually('the client has all', () => client.places.length >= held.length, patienceMs)
      // None is missing and none came twice.
      expect(client.places.toSorted()).toEqual(held)
      expect(client.active()).toEqual(active)
      for (const program of programs) await untilEqual(program, active)

      await platform.stop()
      await growWhenDrained()
      await platform.start()
      const later = writeNotes(api)
      await eventually('more is written', () => later.written() > 10, patienceMs)
      await later.stop()
      await eventually(
        'its position is not held any more',
        () => client.ended() === 'position_expired',
        patienceMs,
      )
      const again = followNotes(api)
      onTestFinished(() => again.stop())
      const grown = await untilPublished(api)
      await eventually('the new copy has all', () => String(again.active()) === String(grown), patienceMs)
      for (const program of programs) await untilEqual(program, grown)
    }, 600_000)

    /** Groups keep a member that was killed for a while; what it had not read is read after a start. */
    async function growWhenDrained(): Promise<void> {
      await eventually(
        'the topic grows',
        async () => {
          try {
            await platform.processes.run(
              ['topics', 'grow', 'hub.records', '--partitions', '24'],
              platform.home,
            )
            return true
          } catch (error) {
            if (!/group_active/.test(String(error))) throw error
            return false
          }
        },
        patienceMs,
      )
    }

    test('a sink into files is killed again and again, and has every record once', async () => {
      const { api, home, processes } = platform
      const folder = join(home, 'copies')
      const args = ['sink', 'jsonl', 'hub.records', '--to', folder]
      const writing = writeNotes(api)
      onTestFinished(() => writing.stop())
      for (let round = 0; round < 4; round++) {
        const sink = processes.command(args, home)
        const before = placesIn(folder).length
        await eventually('it copies', () => placesIn(folder).length > before + 3 * round, patienceMs)
        sink.child.kill('SIGKILL')
        await sink.finished
        // On embedded engines the sink runs within the platform.
        if (engines.env.KAFKA_BROKERS === undefined && round % 2 === 1) await platform.killAndStart()
      }
      await writing.stop()
      await untilPublished(api)
      // On embedded engines the platform learns a moment later that its sink was left.
      await eventually(
        'the folder is free',
        async () => (await processes.command([...args, '--no-follow'], home).finished) === 0,
        patienceMs,
      )
      await eventually(
        'all is copied',
        async () => {
          await processes.run([...args, '--no-follow'], home)
          return placesIn(folder).length >= (await placesHeld()).length
        },
        patienceMs,
      )
      expect(placesIn(folder).toSorted()).toEqual(await placesHeld())
    }, 600_000)

    test('a sink into tables is killed again and again: every record once, and the newest of each key', async () => {
      const { api, home, processes } = platform
      const relational = await openPostgres({ url: engines.env.SINK_POSTGRES_URL!, log: silentLog })
      onTestFinished(() => relational.close())
      const args = ['sink', 'postgres', 'hub.records']
      const modes = [
        [...args, '--table', 'records', '--mode', 'append'],
        [...args, '--table', 'states'],
      ]
      const countOf = async () => {
        const { rows } = await relational.query<{ count: number }>(
          'select count(*)::int as count from records',
        )
        return rows[0]!.count
      }
      for (const mode of modes) await processes.run(mode, home)
      const writing = writeNotes(api)
      onTestFinished(() => writing.stop())
      for (let round = 0; round < 3; round++) {
        const sinks = modes.map((mode) => processes.command(mode, home))
        const before = await countOf()
        await eventually('it copies', async () => (await countOf()) > before + 3 * round, patienceMs)
        for (const { child } of sinks) child.kill('SIGKILL')
        await Promise.all(sinks.map(({ finished }) => finished))
        if (round === 1) await platform.killAndStart()
      }
      await writing.stop()
      const notes = await untilPublished(api)
      const held = await placesHeld()
      await eventually(
        'all is copied',
        async () => {
          for (const mode of modes) await processes.run(mode, home)
          return (await countOf()) >= held.length
        },
        patienceMs,
      )
      const { rows } = await relational.query<{ place: string }>(
        `select partition || '/' || "offset" as place from records`,
      )
      expect(rows.map(({ place }) => place).sort()).toEqual(held)
      const states = await relational.query<{ note: string }>(
        `select value->>'id' || ' ' || (value->>'title') as note from states where value->>'status' = 'active'`,
      )
      expect(states.rows.map(({ note }) => note).sort()).toEqual(notes)
    }, 600_000)
  })
}

/** Over HTTP everywhere, and from Kafka where there is one. */
async function programsFor(
  { baseUrl, keyFile }: KilledPlatform,
  env: Record<string, string>,
): Promise<PythonCopy[]> {
  const overHttp = { program: 'notes_copy.py', args: [baseUrl, keyFile] }
  const { KAFKA_BROKERS: brokers, SCHEMA_REGISTRY_URL: registry } = env
  if (!brokers || !registry) return [overHttp]
  const packages = await installConfluentKafka()
  return [overHttp, { program: 'notes_copy_kafka.py', args: [brokers, registry, baseUrl], packages }]
}

async function untilEqual(
  program: ReturnType<typeof runPythonCopy>,
  notes: readonly string[],
): Promise<void> {
  const isEqual = () => {
    if (program.ended()) throw new Error(`the program ended: ${program.errors()}`)
    return String(program.active()) === String(notes)
  }
  await eventually('the program has all', isEqual, patienceMs).catch((error: unknown) => {
    throw new Error(`${error}: ${program.errors()}`)
  })
}

/** Whole lines alone: a sink may be writing. */
export function placesIn(folder: string): string[] {
  let names: string[] = []
  try {
    names = readdirSync(folder).filter((name) => name.endsWith('.jsonl'))
  } catch {
    // Not made yet.
  }
  return names
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .flatMap((text) => text.split('\n').slice(0, -1))
    .map((line) => JSON.parse(line) as { partition: number; offset: number })
    .map(({ partition, offset }) => `${partition}/${offset}`)
}
