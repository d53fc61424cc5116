/**
 * Agents that use all interfaces of two instances at the same time, one call after the other each, and record
 * acknowledged calls. A call that an instance being replaced does not answer is sent again, as clients do.
 */

import { type Client, createClient } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { eventually } from './eventually.ts'
import { axisVector } from './points.ts'
import type { Instance } from './rolling-platform.ts'

const pauseMs = 150
/** An instance is away while it is replaced: every call is tried again until it is back. */
const patient = {
  retryFor: 600,
  timeoutMs: 15_000,
  random: () => 0,
  sleep: (ms: number) => sleep(ms + 200),
}

export const kinds = ['point', 'note', 'run', 'event'] as const
export type Kind = (typeof kinds)[number]

export interface Acknowledged {
  kind: Kind
  /** Name of the instance. */
  instance: string
  /** Number of the agent's call of this kind at this instance, from 0. */
  n: number
  /** The point's id, the note's, the run's, the event's task. */
  id: string
}

export interface Traffic {
  acknowledged: Acknowledged[]
  /** Answers that a client does not expect. */
  surprises: string[]
  /** Resolves when every kind was acknowledged at every instance `count` times more. */
  round(count?: number): Promise<void>
  clients: Client[]
  stop(): Promise<void>
  close(): Promise<void>
}

export interface Agent {
  agentId: string
  privateKeyFile: string
}

export function startTraffic(instances: readonly Instance[], agent: Agent): Traffic {
  const acknowledged: Acknowledged[] = []
  const surprises: string[] = []
  let on = true
  const clients = instances.map((instance) => createClient({ ...instance, ...agent, ...patient }))
  const lines = instances.flatMap((instance, at) =>
    kinds.map(async (kind) => {
      for (let n = 0; on; n++) {
        try {
          const id = await calls[kind](clients[at] as Client, instance.name, n)
          acknowledged.push({ kind, instance: instance.name, n, id })
        } catch (error) {
          surprises.push(`${kind} ${n} at ${instance.name} (${instance.version}): ${error}`)
        }
        await sleep(pauseMs)
      }
    }),
  )
  const countOf = (kind: Kind, { name }: Instance) =>
    acknowledged.filter((one) => one.kind === kind && one.instance === name).length
  return {
    acknowledged,
    surprises,
    clients,
    async round(count = 3) {
      const ends = instances.flatMap((instance) =>
        kinds.map((kind) => ({ instance, kind, end: countOf(kind, instance) + count })),
      )
      const left = () => ends.filter(({ instance, kind, end }) => countOf(kind, instance) < end)
      await eventually('every kind goes on', () => left().length === 0, 180_000).catch(() => {
        const waiting = left().map(
          ({ instance, kind }) => `${kind} at ${instance.name} (${instance.version})`,
        )
        throw new Error(`no progress: ${waiting.join(', ')}; ${surprises.slice(0, 5).join('; ')}`)
      })
    },
    async stop() {
      on = false
      await Promise.all(lines)
    },
    async close() {
      on = false
      await Promise.all(clients.map((client) => client.close()))
      await Promise.all(lines)
    },
  }
}

/** Each returns the id that was acknowledged. */
const calls: Record<Kind, (client: Client, instance: string, n: number) => Promise<string>> = {
  async point(client, instance, n) {
    const id = `${instance}-${n}`
    const point = { id, vector: axisVector(n), payload: { instance, n } }
    // The second is written again and again.
    const latest = { id: `${instance}-latest`, vector: axisVector(n), payload: { n } }
    await client.upsert('posts', [point, latest], { idempotencyKey: id })
    return id
  },
  async note(client, instance, n) {
    const note = { subject: `Note ${n}`, body: `By way of ${instance}.` }
    const { id } = await client.notes.create(note, { idempotencyKey: `note-${instance}-${n}` })
    return String(id)
  },
  async run(client, instance, n) {
    const { run } = await client.runs.run('whale', `Call ${n} at ${instance}`)
    return run.runId
  },
  async event(client, instance, n) {
    const task_id = `${instance}.${n}`
    await client.webhooks.fire({ event: 'task.completed', agent: 'ATLAS', task_id, result: { n } })
    return task_id
  },
}
