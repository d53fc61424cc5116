/** Who the name of a user means: names are free, but those of agents and people of the platform are theirs. */

import type { SqlExecutor } from '#engines/relational/port.ts'

/** The uid of the agent, person or operator that the name means; null for a free one. */
export async function uidNamed(executor: SqlExecutor, name: string): Promise<string | null> {
  const statement = 'select platform.uid_named($1) as uid'
  const { rows } = await executor.query<{ uid: string | null }>(statement, [name])
  return rows[0]!.uid
}
