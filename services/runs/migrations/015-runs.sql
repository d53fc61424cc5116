-- Runs of agents: the rows are the truth about them. What is published of them, and who is woken, follows from here.
create table platform.runs (
  -- The order in which runs were accepted.
  id bigint generated always as identity,
  run_id text primary key,
  slug text not null,
  agent text not null,
  user_id text not null,
  session_id text not null,
  -- Runs of one lane never overlap. A hash, because the ids together may be too long for an index.
  lane uuid not null generated always as
    (md5(slug || '/' || length(user_id) || '/' || user_id || '/' || session_id)::uuid) stored,
  status text not null check (status in ('queued', 'running', 'completed', 'failed', 'canceled')),
  trigger text not null check (trigger in ('api', 'mention', 'dispatch', 'synthesis', 'report')),
  parent_run_id text,
  root_run_id text not null,
  goal_id bigint,
  depth integer not null default 0,
  caller_uid text not null default '',
  request_id text,
  traceparent text,
  -- What the node is given. Of a report run: null, its text is made from the row of its report.
  -- json, not jsonb: texts of users may hold what jsonb refuses.
  message json,
  -- Of a mention: the codename of the agent that wrote the message, or 'user'.
  message_author text,
  streaming boolean not null default false,
  state_delta json,
  custom_metadata json,
  -- Attempts that were begun.
  attempt integer not null default 0,
  error jsonb,
  joined jsonb not null default '[]',
  skipped jsonb not null default '[]',
  summary text,
  events integer not null default 0,
  event_bytes bigint not null default 0,
  -- True once the attempt has shown an event: then it is not repeated.
  shown boolean not null default false,
  -- Who runs it, until when, and under which epoch: events of an earlier epoch are refused.
  holder text,
  lease_until timestamptz,
  epoch bigint not null default 0,
  -- Since when it is the first of its lane while no node or slot is there for it.
  head_at timestamptz,
  -- Not claimed before: its node did not answer.
  not_before timestamptz,
  -- It fails when it has not ended by then: of a dispatch or a synthesis.
  deadline timestamptz,
  cancel_requested_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  ended_at timestamptz
) with (fillfactor = 80);
create unique index runs_one_a_lane on platform.runs (lane) where status = 'running';
create index runs_lane on platform.runs (lane, id) where status in ('queued', 'running');
create index runs_queued on platform.runs (slug, id) where status = 'queued';
create index runs_running on platform.runs (slug, lease_until) where status = 'running';
create index runs_root on platform.runs (root_run_id);
create index runs_goal on platform.runs (goal_id, id) where goal_id is not null;
create index runs_caller on platform.runs (caller_uid, id);
create index runs_user on platform.runs (user_id, id);
create index runs_session on platform.runs (session_id, id);
create index runs_ended on platform.runs (ended_at) where ended_at is not null and parent_run_id is null;

-- One row for each run that has no parent, and all that joined it. Its lock orders the events of the tree.
create table platform.run_trees (
  root_run_id text primary key,
  goal_id bigint,
  last_event_id bigint not null default 0,
  -- Runs that have not ended.
  open_runs integer not null default 1,
  -- Runs that mentions started, and how often each agent called which other one.
  mentions integer not null default 0,
  pairs jsonb not null default '{}'
) with (fillfactor = 70);

create table platform.run_events (
  root_run_id text not null,
  -- 1, 2, 3 … in the order of the commits.
  seq bigint not null,
  run_id text not null,
  goal_id bigint,
  -- The same over all runs of a dispatch.
  goal_seq bigint,
  event text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (root_run_id, seq)
);
create index run_events_goal on platform.run_events (goal_id, goal_seq) where goal_id is not null;

-- Collective dispatches, by the goal that each one is.
create table platform.dispatches (
  goal_id bigint primary key,
  user_id text not null,
  session_id text not null,
  message json not null,
  caller_uid text not null,
  request_id text,
  status text not null check (status in ('running', 'completed', 'partial', 'failed', 'canceled')),
  result text,
  last_event_id bigint not null default 0,
  synthesis_run_id text,
  deadline timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz
);
create index dispatches_running on platform.dispatches (goal_id) where status = 'running';

-- What AXON is to learn: one row for each run of another agent that ended.
create table platform.run_reports (
  -- The run that the report is about; it is the report's id as well.
  run_id text primary key,
  report_run_id text not null unique,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'undelivered')),
  body jsonb not null,
  created_at timestamptz not null default clock_timestamp()
);
create index run_reports_undelivered on platform.run_reports (created_at) where state = 'undelivered';

-- What the dispatchers know of the nodes. The row's lock lets one of them at a time count and claim the runs of a node.
create table platform.run_nodes (
  slug text primary key,
  codename text not null,
  status text not null default 'unknown' check (status in ('unknown', 'up', 'down')),
  last_seen timestamptz,
  -- Since when its probes fail.
  away_since timestamptz,
  -- agent.spawned was the last event of it, not agent.terminated.
  alive boolean not null default false
);

-- Claims the oldest queued runs of lanes that have none running, as long as the node has free slots: slots_max over all
-- dispatchers. Another dispatcher waits for the node's row, and looks only then, so no slot is counted twice. A function,
-- because the lock must not wait for a client that was paused in the midst of a transaction.
create function platform.claim_runs(
  of_slug text, slots_max integer, runs_max integer, claimant text, lease_ms double precision
) returns setof platform.runs language plpgsql as $$
begin
  perform from platform.run_nodes n where n.slug = of_slug for no key update;
  return query
    with next as materialized (
      select q.run_id from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and (q.not_before is null or q.not_before <= clock_timestamp())
        and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running')
            and (o.status = 'running' or o.id < q.id))
      order by q.id
      limit (select greatest(0, least(runs_max, slots_max - count(*))) from platform.runs c
             where c.slug = of_slug and c.status = 'running'))
    update platform.runs r set status = 'running', attempt = r.attempt + 1, epoch = r.epoch + 1, shown = false,
      holder = claimant, lease_until = clock_timestamp() + make_interval(secs => lease_ms / 1000),
      started_at = coalesce(r.started_at, clock_timestamp())
    from next where r.run_id = next.run_id and r.status = 'queued'
    returning r.*;
end
$$;
