/** Chooses where the rows of the agents' limits are kept: in the shared database, or in the memory of the one process. */

import type { Relational } from '#engines/relational/port.ts'
import { createLimitRows, type SharedLimits } from './limit-rows.ts'
import { createMemoryRows } from './memory-rows.ts'

/** By the embedded database: all ingresses of this process, and its commands, count in the same rows. */
const ofThisProcess = new WeakMap<Relational, SharedLimits>()

export function limitRowsOf(relational: Relational): SharedLimits {
  if (relational.driver !== 'embedded') return createLimitRows(relational)
  const rows = ofThisProcess.get(relational) ?? createMemoryRows(relational)
  ofThisProcess.set(relational, rows)
  return rows
}

/** Operations of an agent, by its uid, that began today, as far as the gateways reported. */
export function readUsedToday(relational: Relational, key: string): Promise<number> {
  return limitRowsOf(relational).usedToday(key)
}
