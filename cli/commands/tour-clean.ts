/** Removes what tours made: all of it, or what the next one does not make again. */

import { plural } from '#lib/plural.ts'
import { clearAgentAction } from '#operations/agents/clear.ts'
import type { Cli } from '../cli.ts'
import { type Addresses, deletePoints, deleteTagged, findAgent, removeAgent } from './example-agents.ts'
import type { TourDocument } from './tour-documents.ts'
import { collection, killCollection, type Tour, tourAgent, tourTag } from './tour-parts.ts'

const collections = [collection, killCollection]

/** Sections that are gone from the docs, notes, goals and runs: so a second tour doubles nothing. */
export async function removeEarlier({ cli, client }: Tour, documents: TourDocument[]): Promise<string> {
  const kept = new Set(documents.map(({ id }) => id))
  const points = await deleteTagged(client, { collections, tag: tourTag, kept, signal: cli.signal })
  const removed = await cli.execute(clearAgentAction, { agent_id: tourAgent.agent_id })
  return removedText({ points, ...removed })
}

export interface Removed {
  points: number
  notes: number
  goals: number
  runs: number
  dispatches: number
}

export function removedText({ points, notes, goals, runs, dispatches }: Removed): string {
  if (points + notes + goals + runs + dispatches === 0) return 'nothing'
  const all = { point: points, note: notes, goal: goals, run: runs }
  const counts = Object.entries(all).map(([name, count]) => plural(count, name))
  return [...counts, dispatches === 1 ? '1 dispatch' : `${dispatches} dispatches`].join(', ')
}

/** Removes all that tours made on the platform; null where none was. */
export async function cleanTour(cli: Cli, addresses: Addresses): Promise<Removed | null> {
  if (!(await findAgent(cli, tourAgent))) return null
  const points = await deletePoints(cli, addresses, tourAgent, { collections, tag: tourTag })
  return { points, ...(await removeAgent(cli, tourAgent)) }
}
