/** Webhooks of a fixture for upgrades: some delivered, some waiting for targets that are away, some given up. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createWebhookClient } from '#client/webhooks.ts'
import { eventually } from '../../test/support/eventually.ts'
import { openWebhookSink, type Received, type WebhookSink } from '../../test/support/webhook-sink.ts'
import type { FixtureDelivery, FixtureTarget, FixtureWebhookLetter } from './manifest.ts'
import type { RunningStack } from './running-stack.ts'

/** Entries of the targets file by target, on a receiver whose paths are the targets' names. */
export function targetsOn(receiver: string, away = receiver): Record<string, Record<string, unknown>> {
  const at = (base: string, target: string) => ({ url: new URL(`/${target}`, base).href })
  const tasks = ['task.completed', 'task.failed']
  return {
    witness: at(receiver, 'witness'),
    // Nothing listens there.
    away: { ...at(away, 'away'), events: tasks, retry: 1, backoff_ms: 10 },
    // One agent's events arrive, while those of another, which came before, find it away.
    half: { ...at(receiver, 'half'), events: tasks, ordering: 'agent', retry: 2, backoff_ms: 200 },
    picky: { ...at(receiver, 'picky'), events: tasks, retry: 0 },
  }
}

/** JSON is YAML. */
export function writeTargets(home: string, targets: Record<string, unknown>): void {
  writeFileSync(join(home, 'targets.yaml'), JSON.stringify({ targets }, null, 2))
}

interface FilledWebhooks {
  targets: FixtureTarget[]
  webhook_dead_letters: FixtureWebhookLetter[]
}

interface Standing {
  target: string
  state: string
  partition: number
  lag: number
}

/** Deletes the agent `gone`, too: the targets get an event. */
export async function fillWebhooks(stack: RunningStack): Promise<FilledWebhooks> {
  const receiver = await openWebhookSink(answer)
  const nobody = await openWebhookSink()
  await nobody.down()
  try {
    writeTargets(stack.home, targetsOn(receiver.url, nobody.url))
    const fired = await fireAll(stack)
    await stack.command('agents', 'delete', 'gone')
    const standings = await eventually('what can be delivered is', () => settled(stack, receiver), 60_000)
    const letters = await lettersOf(stack)
    const targets = standings.map(({ target, partition }) =>
      describe({ target, partition, fired, receiver, letters }),
    )
    return { targets, webhook_dead_letters: letters }
  } finally {
    await receiver.close()
  }
}

function answer({ path, body }: Received): { status: number } {
  const { agent } = JSON.parse(body.toString()) as { agent: string }
  if (path === '/picky' && agent === 'TROUBLE') return { status: 400 }
  if (path === '/half' && agent === 'NEXUS') return { status: 503 }
  return { status: 204 }
}

type Fired = FixtureDelivery & { target: string }

/** Every agent has its turn: the sequences of each are not next to each other. */
async function fireAll({ webhookUrl }: RunningStack): Promise<Fired[]> {
  const client = createWebhookClient({ webhookUrl })
  const targets = Object.keys(targetsOn('http://127.0.0.1/'))
  const fired: Fired[] = []
  const fire = async (agent: string, task_id: string) => {
    const event = { event: 'task.completed' as const, agent, task_id, result: { of: task_id, ключ: ['🐋'] } }
    const { deliveries } = await client.fire(event, { targets })
    fired.push(...deliveries.map((delivery) => ({ ...delivery, agent, task_id })))
  }
  try {
    // The relay takes up a changed file within two seconds.
    await eventually('the relay knows the targets', () => fire('NEXUS', 't-first').then(() => true))
    for (let n = 0; n < 5; n++) {
      for (const agent of ['NEXUS', 'ATLAS', 'TROUBLE']) await fire(agent, `t-${n}`)
    }
    return fired
  } finally {
    await client.close()
  }
}

/** Where every target is, once nothing moves any more. */
async function settled({ command }: RunningStack, receiver: WebhookSink): Promise<Standing[] | undefined> {
  const { targets } = await command<{ targets: Standing[] }>('webhooks', 'targets')
  const state = (name: string) => targets.find(({ target }) => target === name)?.state
  const heard = receiver.received.some(
    ({ path, body }) => path === '/witness' && body.includes('agent.terminated'),
  )
  const still = ['witness', 'picky'].every((name) => state(name) === 'idle')
  const out = ['away', 'half'].every((name) => state(name) === 'outage')
  return heard && still && out ? targets : undefined
}

async function lettersOf({ command }: RunningStack): Promise<FixtureWebhookLetter[]> {
  type Listed = { dead_letters: FixtureWebhookLetter[] }
  const { dead_letters } = await command<Listed>('webhooks', 'dead-letters', 'list')
  return dead_letters.map(({ target, sequence, event, agent, task_id }) => ({
    target,
    sequence,
    event,
    agent,
    task_id,
  }))
}

interface Known {
  target: string
  partition: number
  fired: Fired[]
  receiver: WebhookSink
  letters: FixtureWebhookLetter[]
}

function describe({ target, partition, fired, receiver, letters }: Known): FixtureTarget {
  const delivered = receiver.received
    .filter(({ path, status }) => path === `/${target}` && status === 204)
    .map(({ sequence, body }): FixtureDelivery => {
      const { agent, task_id } = JSON.parse(body.toString()) as FixtureDelivery
      return { sequence, agent, task_id }
    })
  const parked = letters.filter((letter) => letter.target === target).map(({ sequence }) => sequence)
  const through = new Set([...delivered.map(({ sequence }) => sequence), ...parked])
  const pending = fired
    .filter((one) => one.target === target && !through.has(one.sequence))
    .map(({ sequence, agent, task_id }) => ({ sequence, agent, task_id }))
  return { target, partition, delivered, pending, parked }
}
