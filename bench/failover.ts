/** How long work pauses when processes are killed, added, stopped and restarted, in seconds that time limits decide. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { createClient } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { relationalIndex, vectorsIndex } from '#services/vectors/write/rebuild.ts'
import { vectorsCommands, webhooksDeliveries } from '#topics/catalog.ts'
import type { Topic } from '#topics/topic.ts'
import type { Processes, ServiceProcess } from '../test/support/distributed-process.ts'
import { eventually } from '../test/support/eventually.ts'
import { axisVector } from '../test/support/points.ts'
import type { Bench, BenchRow } from './bench.ts'
import { openDistributedEngines, provision } from './distributed-stage.ts'
import { openIndexLoad } from './failover-indexes.ts'
import { openTargetLoad } from './failover-targets.ts'

/** Bars, in seconds. */
const killedMax = 10
const readableMax = 8
const movedMax = 2
/** Wait after a member came or went: the group has settled by then. */
const settleMs = 2_000
const joinedWithinMs = 60_000

type Report = (text: string) => void

export const failoverBench: Bench = {
  name: 'failover',
  purpose:
    "seconds that work pauses while processes are killed, added, stopped and restarted: three brokers with Kafka's own limits, Postgres and Qdrant",
  async run(report) {
    const engines = await openDistributedEngines(report)
    const home = mkdtempSync(join(tmpdir(), 'fl-bench-'))
    let platform: Platform | undefined
    try {
      const alone = await restartAlone(engines.processes, home, report)
      platform = await openPlatform({
        env: { ...engines.env, FLOTILLA_HOME: home },
        needs: [],
        migrations: migrationFolders,
        producerName: 'bench',
        log: pino({ level: 'error' }, pino.destination(2)),
        lock: false,
      })
      return [
        ...(await failOfWriters(engines.processes, platform, report)),
        alone,
        ...(await movesOfCourier(engines.processes, { platform, home }, report)),
      ]
    } finally {
      await platform?.close()
      await engines.close()
      rmSync(home, { recursive: true, force: true })
    }
  },
}

/** kill -9 in the middle of upserts, and a start: the time from `ready` until all that was acknowledged is read. */
async function restartAlone(processes: Processes, home: string, report: Report): Promise<BenchRow> {
  const before = await processes.start([])
  const privateKeyFile = await provision(processes, join(home, 'bench'), 'bench')
  const open = ({ vectorUrl }: ServiceProcess) =>
    createClient({ vectorUrl, agentId: 'bench', privateKeyFile })
  const writing = open(before)
  const acknowledged: string[] = []
  let killed = false
  const write = async () => {
    for (let n = 0; n < 80; n++) {
      const points = Array.from({ length: 12 }, (_, i) => ({
        id: `alone-${n}-${i}`,
        vector: axisVector(i),
        payload: {},
      }))
      await writing.upsert('knowledgebase', points)
      acknowledged.push(...points.map(({ id }) => id))
    }
  }
  const writer = write().catch((error) => {
    if (!killed) throw error
  })
  await eventually('most are written', () => acknowledged.length > 500, 60_000)
  killed = true
  before.child.kill('SIGKILL')
  await before.finished
  await writing.close()
  await writer
  const killedAt = performance.now()
  const after = await processes.start([], { home: before.home })
  const readyAt = performance.now()
  const reading = open(after)
  const missing = async () => (await reading.getMany('knowledgebase', acknowledged)).missing.length
  await eventually('all that was acknowledged is there', async () => (await missing()) === 0, 90_000)
  const seconds = (performance.now() - readyAt) / 1_000
  await reading.close()
  await end(after)
  const startSeconds = (readyAt - killedAt) / 1_000
  report(`  ${acknowledged.length} acknowledged points readable ${seconds.toFixed(1)} s after ready`)
  return {
    what: 'kill -9 and restart of the only process: from `ready` until all that was acknowledged is readable',
    unit: 's',
    measured: seconds,
    bar: { max: readableMax },
    note: `it started in ${startSeconds.toFixed(1)} s`,
  }
}

/** Two writers of each index: one is killed; of the vector-writers another joins, one leaves, both are restarted. */
async function failOfWriters(processes: Processes, platform: Platform, report: Report): Promise<BenchRow[]> {
  const start = (service: string, members: number) =>
    startMember(processes, platform, { service, members, topic: vectorsCommands })
  const writer = vectorsIndex.writer
  const twoOf = async (service: string) => [await start(service, 1), await start(service, 2)]
  const [[first, second], mirrors] = await Promise.all([twoOf(writer), twoOf(relationalIndex.writer)])
  const load = await openIndexLoad(platform)
  const rows: BenchRow[] = []
  const measure = async (what: string, index: typeof vectorsIndex, max: number) => {
    await sleep(settleMs)
    await load.even(index)
    const measured = load.worst(index)
    report(`  ${what}: ${measured.toFixed(1)} s`)
    rows.push({ what, unit: 's', measured, bar: { max } })
  }
  const moves = async (what: string, work: () => Promise<unknown>) => {
    load.begin()
    await work()
    await measure(`${what}: longest pause of a partition`, vectorsIndex, movedMax)
  }
  const settled = async () => {
    await sleep(settleMs)
    await load.even(vectorsIndex)
    await load.even(relationalIndex)
  }
  try {
    await settled()
    load.begin()
    await kill(first!)
    await sleep(killedMax * 1_000)
    await measure(
      'kill -9 of one of two vector-writers: longest pause of a partition',
      vectorsIndex,
      killedMax,
    )
    load.begin()
    await kill(mirrors[0]!)
    await sleep(killedMax * 1_000)
    await measure(
      'kill -9 of one of two relational-writers: longest pause of a partition',
      relationalIndex,
      killedMax,
    )
    await end(mirrors[1]!)
    const running = [second!]
    await moves('scale-out, one vector-writer to two', async () => running.push(await start(writer, 2)))
    await moves('scale-in, two vector-writers to one', () => end(running.shift()!))
    running.push(await start(writer, 2))
    await sleep(settleMs)
    await moves('rolling restart of two vector-writers', () => restartAll(running, () => start(writer, 2)))
    await Promise.all(running.map(end))
    return rows
  } finally {
    await load.close()
  }
}

/** The same moves of webhook-couriers, and what a target gets twice. */
async function movesOfCourier(
  processes: Processes,
  { platform, home }: { platform: Platform; home: string },
  report: Report,
): Promise<BenchRow[]> {
  const load = await openTargetLoad(platform)
  const file = join(home, 'targets.yaml')
  writeFileSync(file, load.targetsFile)
  const start = (members: number) =>
    startMember(processes, platform, {
      service: 'webhook-courier',
      topic: webhooksDeliveries,
      members,
      more: { WEBHOOK_TARGETS_FILE: file },
    })
  const rows: BenchRow[] = []
  const moves = async (what: string, work: () => Promise<unknown>) => {
    const { worst, repeats, events } = await load.during(async () => {
      await sleep(500)
      await work()
      await sleep(settleMs)
    })
    report(`  ${what}: ${worst.toFixed(1)} s, ${repeats} of ${events} events twice`)
    rows.push(
      { what: `${what}: longest wait of an event`, unit: 's', measured: worst, bar: { max: movedMax } },
      {
        what: `${what}: events that a target got twice`,
        unit: 'events',
        measured: repeats,
        bar: { max: 0 },
        note: `of ${events}`,
      },
    )
  }
  try {
    const running = [await start(1)]
    await load.during(() => sleep(settleMs))
    await moves('scale-out, one webhook-courier to two', async () => running.push(await start(2)))
    await moves('scale-in, two webhook-couriers to one', () => end(running.shift()!))
    running.push(await start(2))
    await moves('rolling restart of two webhook-couriers', () => restartAll(running, () => start(2)))
    await Promise.all(running.map(end))
    return rows
  } finally {
    await load.close()
  }
}

/** One after the other, as an operator would: the next one when the group has the new one. */
async function restartAll(running: ServiceProcess[], start: () => Promise<ServiceProcess>): Promise<void> {
  for (const _ of [...running]) {
    await end(running.shift()!)
    running.push(await start())
    await sleep(settleMs)
  }
}

/** Starts a process of this service and resolves when its group has so many members. */
async function startMember(
  processes: Processes,
  { engines, publisher }: Platform,
  member: { service: string; topic: Topic; members: number; more?: Record<string, string> },
): Promise<ServiceProcess> {
  const { service, topic, members, more = {} } = member
  const { physicalName } = publisher.locationOf(topic)
  const one = await processes.start([service], { more })
  const joined = async () => (await engines.eventLog.groupState(service, physicalName)).members === members
  await eventually(`${service} has ${members} members`, joined, joinedWithinMs)
  return one
}

async function end(one: ServiceProcess): Promise<void> {
  one.child.kill('SIGTERM')
  await one.finished
}

async function kill(one: ServiceProcess): Promise<void> {
  one.child.kill('SIGKILL')
  await one.finished
}
