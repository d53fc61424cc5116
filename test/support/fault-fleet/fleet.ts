/** A small fleet on a distributed stack: servers, two platforms, agents at a node, a webhook target, steady work. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { readLag } from '#operations/lag.ts'
import { openPlatform, type Platform } from '#runtime/start/platform.ts'
import { migrationFolders } from '#services/migrations.ts'
import { echoScript, openScriptedNode } from '../scripted-node.ts'
import { openWebhookSink, type WebhookSink } from '../webhook-sink.ts'
import { createFleetLoad, type FleetLoad } from './load.ts'
import { type FleetPlatforms, startFleetPlatforms } from './platforms.ts'
import { type FleetServers, openFleetServers } from './servers.ts'
import { mountVolume, type Volume } from './volume.ts'

export interface FaultFleet {
  servers: FleetServers
  platforms: FleetPlatforms
  load: FleetLoad
  sink: WebhookSink
  /** Volumes of the brokers, where they have their own. */
  volumes: Volume[]
  /** Positions of every group and partition. */
  positions(): Promise<Position[]>
  close(): Promise<void>
}

export interface Position {
  /** Group, topic and partition. */
  name: string
  /** The next record that it reads, and how many there are. */
  committed: number
  end: number
}

export interface FaultFleetOptions {
  /** MiB of each broker's own volume. Without it they write to the folder for temporary files. */
  brokerVolumeMb?: number
}

/** Room for the brokers' data of the longest run. */
export const brokerVolumeMb = 600

const agents = ['whale', 'axon']

export async function openFaultFleet({ brokerVolumeMb }: FaultFleetOptions = {}): Promise<FaultFleet> {
  const opened: (() => Promise<unknown>)[] = []
  const close = async () => {
    for (const one of opened.reverse()) await one()
  }
  const home = mkdtempSync(join(tmpdir(), 'fl-'))
  opened.push(async () => rmSync(home, { recursive: true, force: true }))
  try {
    const volumes: Volume[] = []
    for (const _ of brokerVolumeMb === undefined ? [] : [1, 2, 3]) {
      const volume = mountVolume(brokerVolumeMb as number)
      if (!volume) break
      volumes.push(volume)
      opened.push(async () => volume.unmount())
    }
    const data = volumes.length === 3 ? volumes.map(({ path }) => join(path, 'data')) : undefined
    const servers = await openFleetServers(data)
    opened.push(servers.close)
    const node = await openScriptedNode(Object.fromEntries(agents.map((name) => [name, echoScript])))
    opened.push(node.close.bind(node))
    const sink = await openWebhookSink()
    opened.push(sink.close.bind(sink))
    const nodes = Object.fromEntries(agents.map((name) => [name, { url: node.url, concurrency: 50 }]))
    const platforms = await startFleetPlatforms(servers.env, { nodes, targets: { hook: { url: sink.url } } })
    opened.push(platforms.close)
    const observer = await openPlatform({
      env: { ...servers.env, FLOTILLA_HOME: home },
      needs: [],
      migrations: migrationFolders,
      producerName: 'tests',
      log: pino({ level: 'silent' }),
      lock: false,
    })
    opened.push(() => observer.close())
    const load = createFleetLoad(platforms.platforms)
    opened.push(load.stop)
    return { servers, platforms, load, sink, volumes, positions: () => positionsOf(observer), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function positionsOf(platform: Platform): Promise<Position[]> {
  const groups = await readLag(platform)
  return groups.flatMap(({ group_id, topic, partitions }) =>
    partitions.map(({ partition, end, lag }) => ({
      name: `${group_id} of ${topic}/${partition}`,
      // Records that expired unread are not waited for.
      committed: end - lag,
      end,
    })),
  )
}
