/** The state of the whole platform at a glance: agents, collections, notes, goals, webhook targets, and the lag of the log. */

import { type Static, Type } from 'typebox'
import { listAgents } from '#services/access/agents/agents.ts'
import { goalKind } from '#services/records/goals/goals.ts'
import { noteKind } from '#services/records/notes/notes.ts'
import { countByStatus } from '#services/records/store/read.ts'
import { countSchedules } from '#services/runs/schedules/schedules.ts'
import { readNodeStates } from '#services/runs/state/node-rows.ts'
import { countRuns } from '#services/runs/state/read.ts'
import { listCollections } from '#services/vectors/collections/rows.ts'
import { observeCollections } from '#services/vectors/read/observed.ts'
import { readAssignments } from '#services/webhooks/targets/assignment.ts'
import { readWaiting } from '#services/webhooks/targets/target-status.ts'
import { readLag } from './lag.ts'
import type { OperatedPlatform } from './operation.ts'
import { orNull, time } from './shapes.ts'
import { namedTargets } from './webhooks/target-settings.ts'

const counts = (description: string) => Type.Record(Type.String(), Type.Integer(), { description })

export const brainState = Type.Object(
  {
    agents: Type.Array(
      Type.Object({
        uid: Type.String(),
        slug: Type.String(),
        name: Type.String(),
        role: Type.String(),
        node: orNull(
          Type.Object({
            status: Type.String({ description: '`up`, `down`, or `unknown` before its first probe.' }),
            last_seen: orNull(time, 'null: it has not answered yet.'),
          }),
          'The node that runs it; null where none is named.',
        ),
      }),
    ),
    collections: counts('Points of each collection.'),
    goals: counts('Goals by their status; a status that none has is absent.'),
    notes: Type.Integer({ description: 'Notes, archived ones included.' }),
    runs: counts(
      'Runs by their status; a status that none has is absent. Without reports to the orchestrator.',
    ),
    schedules: Type.Object({
      active: Type.Integer({ description: 'They have a time to come.' }),
      paused: Type.Integer(),
    }),
    webhooks: Type.Record(
      Type.String(),
      Type.Object({
        lag: Type.Integer({ description: 'Accepted, not yet delivered or parked.' }),
        last_status: orNull(Type.Integer(), 'Of the last call; null: no answer, or no call yet.'),
      }),
    ),
    log: Type.Object({ groups: counts('Lag of each reader group.') }),
    as_of: time,
  },
  { title: 'BrainState' },
)

export type BrainState = Static<typeof brainState>

/**
 * `lastStatusOf`: of the last call of a webhook target, which is followed elsewhere, because reading it each time would take
 * long; null where there was no answer, or no call. Throws AppError `relational_engine_unavailable`, `vector_engine_unavailable` or `log_unavailable`.
 */
export async function readBrainState(
  platform: OperatedPlatform,
  lastStatusOf: (target: string) => number | null,
): Promise<BrainState> {
  const { eventLog, relational, vectors } = platform.engines
  const { locations } = platform
  const [agents, collections, goals, notes, runs, schedules, nodes, assignments, groups] = await Promise.all([
    listAgents(relational),
    observeCollections(vectors, () => listCollections(relational)),
    countByStatus(relational, goalKind),
    countByStatus(relational, noteKind),
    countRuns(relational),
    countSchedules(relational),
    readNodeStates(relational),
    readAssignments(relational),
    readLag(platform),
  ])
  const { waiting } = await readWaiting({ eventLog, locations }, new Set(assignments.values()))
  const targets = [...new Set([...assignments.keys(), ...(namedTargets(platform.env).names ?? [])])].sort()
  const bySlug = new Map(
    nodes.map(({ slug, status, lastSeen }) => [slug, { status, last_seen: lastSeen?.toISOString() ?? null }]),
  )
  return {
    agents: agents.map(({ uid, agent_id, name, role }) => {
      const node = bySlug.get(agent_id.toLowerCase()) ?? null
      return { uid, slug: agent_id, name, role, node }
    }),
    collections: Object.fromEntries(collections.map(({ collection, points }) => [collection, points])),
    goals,
    notes: Object.values(notes).reduce((sum, count) => sum + count, 0),
    runs: Object.fromEntries(Object.entries(runs).filter(([, count]) => count > 0)),
    schedules,
    webhooks: Object.fromEntries(
      targets.map((target) => {
        const partition = assignments.get(target)
        const lag = partition === undefined ? 0 : (waiting.get(partition)?.lag ?? 0)
        return [target, { lag, last_status: lastStatusOf(target) }]
      }),
    ),
    log: { groups: Object.fromEntries(groups.map(({ group, lag }) => [group, lag])) },
    as_of: new Date().toISOString(),
  }
}
