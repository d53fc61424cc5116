/** Back-pressure: refuses upserts of an agent that has too many points accepted and not yet applied. */

import { AppError } from '#lib/errors.ts'
import type { Position } from '#runtime/publish/messages.ts'
import { type ByOffset, createByOffset } from './applied.ts'

export const backlogPointsMax = 20_000
/** The applying rate is measured over this time. */
const rateWindowMs = 10_000
const rateSamplesMax = 64
/** The rate is taken over at least this time, because a single sample gives none. */
const rateLeastS = 0.5
/** `retryAfter` while nothing at all is being applied. */
const standstillRetryS = 5
const retryMaxS = 60

export interface Reservation {
  /** The points are in the log at these positions, one for each point. */
  accepted(positions: readonly Position[]): void
  /** They are not, or that is unknown. After `accepted`, or the second time, it does nothing. */
  release(): void
}

export interface Backlog {
  /** Throws AppError `backlog_full` while the agent has more than 20,000 points accepted and not yet applied. */
  reserve(agentId: string, points: number): Reservation
  /** Points of an agent that are accepted here and not yet applied. */
  points(agentId: string): number
}

interface BacklogParts {
  appliedThrough(partition: number): number
  onApplied(listener: (partition: number, through: number) => void): void
  now?(): number
}

/** Points of one agent in one partition, by the offset after which they count as applied. */
interface Share {
  agent: AgentBacklog
  offset: number
  points: number
}

interface AgentBacklog {
  id: string
  points: number
  /** When how many points were applied, oldest first. */
  applied: { at: number; points: number }[]
}

export function createBacklog(parts: BacklogParts): Backlog {
  const now = parts.now ?? (() => performance.now())
  const agents = new Map<string, AgentBacklog>()
  const partitions = new Map<number, ByOffset<Share>>()
  parts.onApplied((partition, through) => {
    for (const share of partitions.get(partition)?.takeThrough(through) ?? []) take(share)
  })

  function take({ agent, points }: Share): void {
    agent.points -= points
    agent.applied.push({ at: now(), points })
    if (agent.applied.length > rateSamplesMax) agent.applied.shift()
    if (agent.points <= 0 && agents.get(agent.id) === agent) agents.delete(agent.id)
  }
  function agentOf(id: string): AgentBacklog {
    const agent = agents.get(id) ?? { id, points: 0, applied: [] }
    agents.set(id, agent)
    return agent
  }

  return {
    points: (agentId) => agents.get(agentId)?.points ?? 0,
    reserve(agentId, points) {
      const agent = agentOf(agentId)
      if (agent.points > backlogPointsMax) throw backlogFull(agent, now())
      agent.points += points
      let settled = false
      return {
        accepted(positions) {
          if (settled) return
          settled = true
          for (const share of sharesOf(agent, positions)) {
            if (share.offset <= parts.appliedThrough(share.partition)) take(share)
            else {
              const shares = partitions.get(share.partition) ?? createByOffset<Share>()
              partitions.set(share.partition, shares)
              shares.add(share)
            }
          }
        },
        release() {
          if (settled) return
          settled = true
          agent.points -= points
          if (agent.points <= 0 && agents.get(agentId) === agent) agents.delete(agentId)
        },
      }
    },
  }
}

function sharesOf(agent: AgentBacklog, positions: readonly Position[]): (Share & { partition: number })[] {
  const shares = new Map<number, Share & { partition: number }>()
  for (const { partition, offset } of positions) {
    const share = shares.get(partition) ?? { agent, partition, offset, points: 0 }
    shares.set(partition, share)
    share.points += 1
    share.offset = Math.max(share.offset, offset)
  }
  return [...shares.values()]
}

function backlogFull(agent: AgentBacklog, now: number): AppError {
  const recent = agent.applied.filter((sample) => sample.at > now - rateWindowMs)
  const points = recent.reduce((sum, sample) => sum + sample.points, 0)
  const overS = recent.length > 0 ? Math.max(rateLeastS, (now - recent[0]!.at) / 1_000) : 0
  const tooMany = agent.points - backlogPointsMax
  const waitS = points === 0 ? standstillRetryS : (tooMany * overS) / points
  return new AppError(
    'backlog_full',
    'Too many of your points wait to be applied: wait for retryAfter seconds.',
    {
      retryAfter: Math.min(retryMaxS, Math.max(0.05, Math.ceil(waitS * 100) / 100)),
    },
  )
}
