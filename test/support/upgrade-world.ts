/** A fixture for upgrades with the platform of this checkout on it, its webhook targets, and ways to compare. */

import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { type Client, createClient } from '#client/client.ts'
import { referenceAgents } from '#services/runs/reference-node/roster.ts'
import { targetsOn, writeTargets } from '../../scripts/upgrade/fill-webhooks.ts'
import type { FixtureDelivery, FixtureGroup } from '../../scripts/upgrade/manifest.ts'
import type { ServiceProcess } from './distributed-process.ts'
import type { UpgradeStack } from './upgrade-stack.ts'
import { openWebhookSink, type WebhookSink } from './webhook-sink.ts'

const codenames: ReadonlySet<string> = new Set(referenceAgents.map(({ codename }) => codename))

export interface UpgradeWorld {
  stack: UpgradeStack
  /** Output of the commands before anything was started. */
  before: { groups: FixtureGroup[]; standings: { target: string; partition: number; lag: number }[] }
  platform: ServiceProcess & { webhookUrl: string }
  keeper: Client
  sink: WebhookSink
}

/** Everything that waits is delivered as soon as the platform runs: its targets are there again. */
export function openUpgradeWorld(open: () => Promise<UpgradeStack>): () => UpgradeWorld {
  let world: UpgradeWorld | undefined
  let stack: UpgradeStack | undefined
  let sink: WebhookSink | undefined
  beforeAll(async () => {
    stack = await open()
    sink = await openWebhookSink()
    writeTargets(stack.home, targetsOn(sink.url))
    const { groups } = await stack.command<{ groups: FixtureGroup[] }>('lag')
    const { targets: standings } = await stack.command<{ targets: UpgradeWorld['before']['standings'] }>(
      'webhooks',
      'targets',
    )
    const platform = await stack.start()
    const keeper = clientOf(stack, platform, 'keeper')
    world = { stack, before: { groups, standings }, platform, keeper, sink }
  }, 300_000)
  afterAll(async () => {
    await world?.keeper.close()
    await stack?.close()
    await sink?.close()
  })
  return () => world as UpgradeWorld
}

export function clientOf(
  { home, keys }: UpgradeStack,
  { vectorUrl }: ServiceProcess,
  agentId: string,
): Client {
  const { file } = keys.find(({ agent_id, in_force }) => agent_id === agentId && in_force)!
  // On a busy machine the log may miss its two seconds: that says nothing of an upgrade.
  return createClient({ vectorUrl, agentId, privateKeyFile: join(home, file), retryFor: 120 })
}

export function byCollection<T extends { collection: string }>(points: T[]): Map<string, T[]> {
  return Map.groupBy(points, ({ collection }) => collection)
}

export async function idsOf(client: Client, collection: string): Promise<string[]> {
  const ids: string[] = []
  for await (const { id } of client.scrollAll({ collection, limit: 40 })) ids.push(id)
  return ids
}

/** First successes at a target's path, in the order of arrival; without the reference nodes of this version, which come up. */
export function arrivedAt(sink: WebhookSink, target: string): FixtureDelivery[] {
  return sink.received
    .filter(({ path, replay }) => path === `/${target}` && !replay)
    .map(({ sequence, body }) => ({
      sequence,
      ...(JSON.parse(body.toString()) as Omit<FixtureDelivery, 'sequence'> & { event: string }),
    }))
    .filter(({ event, agent }) => event !== 'agent.spawned' || !codenames.has(agent))
    .map(({ sequence, agent, task_id }) => ({ sequence, agent, task_id }))
}

/** The same text for the same value, `__proto__` included, whatever the order of its keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  )
}

export function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]) =>
    x.reduce((sum, one, n) => sum + one * (y[n] ?? 0), 0)
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}
