/** Each webhook target owns a partition of its own, also when there are more targets than partitions. */

import { describe, expect, it, onTestFinished } from 'vitest'
import { growTopic } from '#operations/grow.ts'
import { readLag } from '#operations/lag.ts'
import { startLaneConsumer } from '#runtime/consume/consumer.ts'
import { handOverAdded } from '#runtime/publish/added-partitions.ts'
import { ensureTopics } from '#runtime/publish/topics.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { assignPartition, forgetTarget, readAssignments } from '#services/webhooks/targets/assignment.ts'
import { webhooksDeliveries } from '#topics/catalog.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/relational.ts'
import { temporaryFolder } from '../support/temporary.ts'

const topic = webhooksDeliveries
const group = 'webhook-courier'

/** `environment` names empty engines; where they are embedded, one process owns them and two platforms share it. */
export function describeAssignment(driver: string, environment: () => Promise<Record<string, string>>): void {
  async function open(env: Record<string, string>): Promise<Platform> {
    const platform = await openPlatform({
      migrations: migrationFolders,
      env,
      needs: [],
      producerName: 'test',
      log: silentLog,
      lock: true,
    })
    onTestFinished(() => platform.close())
    return platform
  }
  const newHome = async () => ({ ...(await environment()), FLOTILLA_HOME: temporaryFolder() })
  const partsOf = ({ engines, locations }: Platform) => ({ ...engines, locations })

  /** Four at a time, as a busy process might. */
  async function assignAll(parts: ReturnType<typeof partsOf>, names: readonly string[]): Promise<number[]> {
    const partitions = new Array<number>(names.length)
    const left = names.keys()
    const work = async () => {
      for (const n of left) partitions[n] = await assignPartition(parts, names[n] as string)
    }
    await Promise.all([work(), work(), work(), work()])
    return partitions
  }

  describe(`webhook targets and partitions on ${driver} engines`, () => {
    it('70 targets of three processes at once have 70 partitions, none moves; one is forgotten', async () => {
      const env = await newHome()
      const platform = await open(env)
      // Each process has a map of its own, and learns of growth by itself.
      const processes = [1, 2, 3].map(() => ({
        ...partsOf(platform),
        locations: new Map(platform.locations),
      }))
      const early = ['first', 'second']
      for (const [n, name] of early.entries()) {
        expect(await assignPartition(processes[0]!, name)).toBe(n)
      }
      const names = Array.from({ length: 68 }, (_, n) => `target-${n}`)
      const answers = await Promise.all(processes.map((parts) => assignAll(parts, names)))
      for (const answer of answers) expect(answer).toEqual(answers[0])
      const taken = await readAssignments(platform.engines.relational)
      expect(taken.size).toBe(70)
      expect([...new Set(taken.values())].sort((a, b) => a - b)).toEqual([...Array(70).keys()])
      expect(early.map((name) => taken.get(name))).toEqual([0, 1])
      for (const { locations } of processes) expect(locations.get(topic.name)!.partitions).toBe(128)
      const last = await assignPartition(processes[0]!, names.at(-1)!)
      const [position] = await platform.publisher.publish(topic, [{ key: 'k', value: null }], {
        partition: Math.max(...taken.values()),
      })
      expect(position).toEqual({ partition: 69, offset: 0 })
      expect(last).toBe(answers[0]!.at(-1))

      // A start finds the grown topic, and lag and growing by hand go on working.
      await platform.close()
      const again = await open(env)
      expect(again.locations.get(topic.name)!.partitions).toBe(128)
      const lag = (await readLag(again)).find((one) => one.group === group)!
      expect([lag.partitions.length, lag.lag]).toEqual([128, 1])
      const grow = (count: number) =>
        growTopic({ ...again, progress() {}, signal: new AbortController().signal }, topic, count)
      await expect(grow(192)).rejects.toMatchObject({ code: 'conflict' })
      await expect(grow(130)).rejects.toMatchObject({ code: 'bad_request' })

      // A start in the middle of another one's growth waits for it, and adds none of its own.
      const [begun, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const { eventLog, relational } = again.engines
      const growing = relational.transaction(async (tx) => {
        await tx.query('select from platform.topics where name = $1 for update', [topic.name])
        await eventLog.addPartitions(topic.name, 192)
        begun.resolve()
        await release.promise
        await tx.query('update platform.topics set partitions = 192 where name = $1', [topic.name])
      })
      await begun.promise
      const ensured = ensureTopics({ eventLog, relational, log: silentLog, topics: [topic] })
      setTimeout(release.resolve, 300)
      await growing
      expect((await ensured).get(topic.name)!.partitions).toBe(192)

      // Once it has no pending events a target is removed, and its partition is the next one's.
      const parts = partsOf(again)
      const owner = [...taken].find(([, partition]) => partition === 69)![0]
      await expect(forgetTarget(parts, owner, group)).rejects.toMatchObject({ code: 'conflict' })
      await expect(forgetTarget(parts, 'nobody', group)).rejects.toMatchObject({ code: 'not_found' })
      await again.engines.eventLog.setPositions(group, topic.name, [{ partition: 69, offset: 1 }])
      expect(await forgetTarget(parts, owner, group)).toBe(69)
      expect(await assignPartition(parts, 'next')).toBe(69)
      expect(await assignPartition(parts, owner)).toBe(70)
    }, 180_000)

    it('a group that is running reads partitions that were added meanwhile', async () => {
      const env = await newHome()
      const platform = await open(env)
      const read: number[] = []
      const { engines, codec, publisher, log, metrics } = platform
      const start = () =>
        startLaneConsumer(
          { eventLog: engines.eventLog, codec, publisher, log, metrics },
          {
            group,
            topic: webhooksDeliveries,
            concurrency: 4,
            callTimeoutMs: 1_000,
            retriesMax: 0,
            backoff: { baseMs: 10, maxMs: 100 },
            onAssigned: handOverAdded(engines.relational, topic, group),
            async handle(message) {
              read.push(message.partition)
              return { kind: 'done' }
            },
          },
        )
      const write = (partition: number) =>
        publisher.publish(
          webhooksDeliveries,
          [
            {
              key: 't',
              value: {
                target: 't',
                event: 'task.failed',
                agent: 'a',
                task_id: '1',
                idempotency_key: 'k',
                webhook_id: 'w',
                body: Buffer.from('{}'),
                received_at: Date.now(),
                sequence: null,
                replay: false,
              },
            },
          ],
          { partition },
        )
      let member = await start()
      onTestFinished(() => member.close())
      await write(3)
      await eventually('the group reads', () => read.length === 1)
      for (let n = 0; n < 65; n++) await assignPartition(partsOf(platform), `t${n}`)
      await write(64)
      await eventually('the added partition is read', () => read.includes(64), 60_000)
      expect(member.state().stopped).toEqual([])
      await member.close()

      // A restart finds a position like any other: the row that replaced one is deleted.
      member = await start()
      await write(64)
      await eventually(
        'it is read again',
        () => read.filter((partition) => partition === 64).length === 2,
        60_000,
      )
      await eventually('the row is gone', async () => {
        const { rows } = await engines.relational.query<{ partition: number }>(
          'select partition from platform.added_partitions where partition = 64',
        )
        return rows.length === 0
      })

      // A process that dies while it adds partitions leaves the rest to the next start.
      await member.close()
      await engines.eventLog.addPartitions(topic.name, 192)
      await platform.close()
      const again = await open(env)
      expect(again.locations.get(topic.name)!.partitions).toBe(192)
      const { rows } = await again.engines.relational.query<{ n: number; most: number }>(
        'select count(*)::int as n, max(partition) as most from platform.added_partitions where partition >= 128',
      )
      expect(rows[0]).toEqual({ n: 64, most: 191 })
    }, 180_000)
  })
}
