/**
 * What the agents say about the platform itself. It is read over the control socket of the platform that runs on the data
 * directory, as the command line reads it: answers show what the role viewer may see, and no more.
 */

import { withTimeout } from '#lib/backoff.ts'
import { ControlUnreachable, callControl, findControlSocket } from '#runtime/start/control.ts'
import type { NodeState } from '../state/node-rows.ts'

export interface GroupLag {
  group: string
  topic: string
  members: number
  lag: number
  /** Records that its writer cannot get through. */
  stuck: readonly unknown[]
}

export interface AgentFacts {
  uid: string
  agent_id: string
  access: string
  tier: string
}

export interface TargetFacts {
  target: string
  state: string
  /** Deliveries that wait. */
  lag: number
  /** null: its last call had no answer, or there was none. */
  last_status: number | null
}

/** Each rejects with an Error in plain words. */
export interface Facts {
  lag(): Promise<GroupLag[]>
  /** How many there are; `atMost` where they are too many to be counted one by one. */
  deadLetters(): Promise<{ count: number; atMost: boolean }>
  agents(): Promise<AgentFacts[]>
  /** What the person of this uid may do; undefined where there is none. */
  accessOf(personUid: string): Promise<string | undefined>
  targets(): Promise<TargetFacts[]>
  /** Dead letters of each target that has any. */
  targetLetters(): Promise<Map<string, number>>
  nodes(): Promise<NodeState[]>
}

const timeoutMs = 4_000
/** Up to so many are read to be counted: replayed ones leave holes. */
const lettersReadMax = 1_000
const lettersSuffix = '.dead-letters'

/** `nodes`: absent in a process that has no database. */
export function createFacts({ home, nodes }: { home: string; nodes?: Facts['nodes'] }): Facts {
  const underWay = new Map<string, Promise<unknown>>()
  /** Answers at the same time share a call: the socket takes few, and operators need it. */
  function ask<T>(operation: string): Promise<T> {
    const known = underWay.get(operation)
    if (known) return known as Promise<T>
    const call = callPlatform<T>(home, operation).finally(() => underWay.delete(operation))
    underWay.set(operation, call)
    return call
  }
  /** Offsets that the topics of dead letters span, all or those of one topic. */
  async function lettersSpan(topic?: string): Promise<number> {
    const { topics } = await ask<{ topics: { topic: string; records: number }[] }>('topics list')
    const of = (name: string) =>
      topic === undefined ? name.endsWith(lettersSuffix) : name === topic + lettersSuffix
    return topics.reduce((sum, { topic, records }) => sum + (of(topic) ? records : 0), 0)
  }
  return {
    lag: async () => (await ask<{ groups: GroupLag[] }>('lag')).groups,
    async deadLetters() {
      const span = await lettersSpan()
      if (span === 0 || span > lettersReadMax) return { count: span, atMost: span > 0 }
      const { dead_letters: letters } = await ask<{ dead_letters: unknown[] }>('dead-letters list')
      return { count: letters.length, atMost: false }
    },
    agents: async () => (await ask<{ agents: AgentFacts[] }>('agents list')).agents,
    async accessOf(personUid) {
      const { users } = await ask<{ users: { uid: string; role: string }[] }>('users list')
      return users.find(({ uid }) => uid === personUid)?.role
    },
    targets: async () => (await ask<{ targets: TargetFacts[] }>('webhooks targets')).targets,
    async targetLetters() {
      const counts = new Map<string, number>()
      const span = await lettersSpan('webhooks.deliveries')
      if (span === 0) return counts
      if (span > lettersReadMax) throw new Error(`there may be ${span}, too many to be read here`)
      const answer = await ask<{ dead_letters: { target: string }[] }>('webhooks dead-letters list')
      for (const { target } of answer.dead_letters) counts.set(target, (counts.get(target) ?? 0) + 1)
      return counts
    },
    nodes: nodes ?? (() => Promise.reject(new Error('only the process of the platform knows them'))),
  }
}

async function callPlatform<T>(home: string, operation: string): Promise<T> {
  const socket = findControlSocket(home)
  const away = () => new Error('no platform runs on the data directory')
  if (socket === null) throw away()
  const output = { item() {}, progress() {} }
  const giveUp = new AbortController()
  try {
    const call = callControl(socket, { operation, args: {} }, output, giveUp.signal)
    return (await withTimeout(call, timeoutMs, () => new Error('no answer came in time'))) as T
  } catch (error) {
    throw error instanceof ControlUnreachable ? away() : error
  } finally {
    giveUp.abort()
  }
}
