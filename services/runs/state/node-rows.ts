/** What probes found out about the nodes; the events of the fleet follow from the rows, so that each is written once. */

import { ulid } from 'ulid'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { fleetEvents } from '#topics/catalog.ts'

/** Without an answer for this long a node counts as down, and as terminated. */
const downAfterSeconds = 15
const terminatedAfterSeconds = 60

interface Probed {
  slug: string
  answered: boolean
}

interface NodeChange {
  slug: string
  status: 'up' | 'down' | 'unknown'
  changed: boolean
}

/** Rows for nodes that have none yet. */
export async function ensureNodes(
  executor: SqlExecutor,
  nodes: readonly { slug: string; codename: string }[],
): Promise<void> {
  await executor.query(
    `insert into platform.run_nodes (slug, codename) select * from unnest($1::text[], $2::text[])
     on conflict (slug) do update set codename = excluded.codename
     where platform.run_nodes.codename <> excluded.codename`,
    [nodes.map((node) => node.slug), nodes.map((node) => node.codename)],
  )
}

/**
 * Writes what the probes found, with agent.spawned where a node answers for the first time, or again after
 * agent.terminated, which is written where one was away for a minute. A row that is not among them has not answered: no
 * file names its node any more. The events take from `ids`, which serve again where no row has changed.
 */
export async function writeProbes(
  executor: SqlExecutor,
  probed: readonly Probed[],
  ids: string[] = idsFor(probed),
): Promise<NodeChange[]> {
  const { rows } = await executor.query<NodeChange>(
    `with given as (select * from unnest($1::text[], $2::boolean[]) as p (slug, answered)),
     before as (
       select n.slug, n.alive, n.status, coalesce(p.answered, false) as answered
       from platform.run_nodes n left join given p on p.slug = n.slug
       where p.slug is not null or n.alive or n.status <> 'down'
       order by n.slug for no key update of n),
     after as (
       update platform.run_nodes n set
         last_seen = case when b.answered then clock_timestamp() else n.last_seen end,
         away_since = case when b.answered then null else coalesce(n.away_since, clock_timestamp()) end,
         status = case when b.answered then 'up'
           when n.away_since < clock_timestamp() - interval '${downAfterSeconds} seconds' then 'down' else n.status end,
         alive = b.answered or (n.alive and (n.away_since is null
           or n.away_since >= clock_timestamp() - interval '${terminatedAfterSeconds} seconds'))
       from before b where n.slug = b.slug
       returning n.slug, n.codename, n.status, n.alive, b.alive as was_alive, b.status as was),
     sent as (
       insert into platform.outbox (topic, key, event_id, value, headers)
       select '${fleetEvents.name}', codename, gen_random_uuid()::text, jsonb_build_object(
           'event', case when alive then 'agent.spawned' else 'agent.terminated' end, 'agent', codename,
           'task_id', coalesce(ids.id, gen_random_uuid()::text), 'result', case when alive then '{}' else '{"reason":"node_away"}' end,
           'ts', floor(extract(epoch from clock_timestamp()))::bigint),
         jsonb_build_object('agent', codename)
       from (select *, row_number() over (order by slug) as n from after where alive <> was_alive) as changed
       left join unnest($3::text[]) with ordinality as ids (id, n) on ids.n = changed.n)
     select slug, status, status <> was or alive <> was_alive as changed from after`,
    [probed.map((node) => node.slug), probed.map((node) => node.answered), ids],
  )
  return rows
}

/** For nodes that no file names any more; beyond them the events get other ids. */
const spareIds = 64

export function idsFor(probed: readonly Probed[]): string[] {
  return Array.from({ length: probed.length + spareIds }, () => ulid())
}

export interface NodeState {
  slug: string
  /** `down`: its probes have failed for a while. */
  status: 'up' | 'down' | 'unknown'
  /** When it last answered a probe. */
  lastSeen: Date | null
}

export async function readNodeStates(executor: SqlExecutor): Promise<NodeState[]> {
  const { rows } = await executor.query<NodeState>(
    'select slug, status, last_seen as "lastSeen" from platform.run_nodes order by slug',
  )
  return rows
}
