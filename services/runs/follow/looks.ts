/**
 * Looks at the rows of everything that answers wait for, all together and once a second: what the log did not bring, or
 * brings late, is found so.
 */

import type { Logger } from 'pino'
import type { Relational, SqlExecutor } from '#engines/relational/port.ts'
import type { Closeable } from '#lib/resource.ts'
import { startRepeating } from '#runtime/repeat.ts'

/** The subject of a look: a tree by the id of its root run, a run by its id, a dispatch by the number of its goal. */
export interface LookKey {
  kind: 'tree' | 'run' | 'dispatch'
  id: string | number
}

export interface Look {
  ended: boolean
  /** Last event of the tree, or of the dispatch. */
  lastEventId: number
}

export interface Looks extends Closeable {
  /** Calls `listener` about once a second until the result is called. */
  watch(key: LookKey, listener: (look: Look) => void): () => void
}

const everyMs = 1_000

interface Watch {
  key: LookKey
  listener: (look: Look) => void
}

export function createLooks({
  relational,
  log,
}: {
  relational: Pick<Relational, 'query'>
  log: Logger
}): Looks {
  const watches = new Set<Watch>()
  const looking = startRepeating({ what: 'looks at runs', everyMs, log }, async () => {
    for (const [kind, asked] of Map.groupBy(watches, ({ key }) => key.kind)) {
      const ids = new Set(asked.map(({ key }) => key.id))
      const found = await lookAt(relational, kind, [...ids])
      for (const watch of asked) if (watches.has(watch)) watch.listener(found.get(watch.key.id)!)
    }
  })
  return {
    watch(key, listener) {
      const watch = { key, listener }
      watches.add(watch)
      return () => watches.delete(watch)
    },
    close: looking.close,
  }
}

const statements = {
  tree: `select root_run_id as key, open_runs = 0 as ended, last_event_id as last
    from platform.run_trees where root_run_id = any($1::text[])`,
  run: `select r.run_id as key, r.status not in ('queued', 'running') as ended, t.last_event_id as last
    from platform.runs r join platform.run_trees t on t.root_run_id = r.root_run_id
    where r.run_id = any($1::text[])`,
  dispatch: `select goal_id as key, status <> 'running' as ended, last_event_id as last
    from platform.dispatches where goal_id = any($1::bigint[])`,
}

/** One that is not there has ended. */
export async function lookNow(executor: SqlExecutor, { kind, id }: LookKey): Promise<Look> {
  return (await lookAt(executor, kind, [id])).get(id)!
}

async function lookAt(
  executor: SqlExecutor,
  kind: LookKey['kind'],
  ids: LookKey['id'][],
): Promise<Map<LookKey['id'], Look>> {
  const found = new Map(ids.map((id): [LookKey['id'], Look] => [id, { ended: true, lastEventId: 0 }]))
  const { rows } = await executor.query<{ key: LookKey['id']; ended: boolean; last: number }>(
    statements[kind],
    [ids as string[]],
  )
  for (const { key, ended, last } of rows) found.set(key, { ended, lastEventId: last })
  return found
}
