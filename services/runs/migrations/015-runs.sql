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
-- Few, and partial: each costs something at every change of a run's status.
create unique index runs_order on platform.runs (id);
create unique index runs_one_a_lane on platform.runs (lane) where status = 'running';
create index runs_lane on platform.runs (lane, id) where status in ('queued', 'running');
create index runs_queued on platform.runs (slug, id) where status = 'queued';
create index runs_running on platform.runs (slug, lease_until) where status = 'running';
create index runs_joined on platform.runs (root_run_id) where parent_run_id is not null;
create index runs_goal on platform.runs (goal_id, id) where goal_id is not null;
create index runs_caller on platform.runs (caller_uid, id) where trigger <> 'report';
create index runs_user on platform.runs (user_id, id) where trigger <> 'report';
create index runs_session on platform.runs (session_id, id) where trigger <> 'report';

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
  -- Of its agents, in the order of the nodes file.
  run_ids text[] not null,
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

-- What follows runs for each run several times. As functions these statements are planned once for a session, not at every
-- use, and the locks that they take are never held by a client.

-- Accepts a run into its lane, with its tree and the record that wakes the dispatchers. Not made: the run exists, or the lane
-- is full, or it is busy and the caller does not wait. Runs of callers are limited by those of callers that wait.
create function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  out made text, out active text, out waiting integer, out accepted_at timestamptz
) language plpgsql as $$
declare
  of_lane uuid := md5(of_slug || '/' || length(of_user) || '/' || of_user || '/' || of_session)::uuid;
  open integer;
begin
  perform pg_advisory_xact_lock(hashtextextended(of_lane::text, 0));
  select count(*) filter (where r.status = 'queued' and r.trigger in ('api', 'dispatch')), count(*),
    (array_agg(r.run_id order by r.status = 'running' desc, r.id))[1]
  into waiting, open, active
  from platform.runs r where r.lane = of_lane and r.status in ('queued', 'running');
  if limited and (waiting >= waiting_max or rejects and open > 0) or not limited and open >= open_max then
    return;
  end if;
  insert into platform.runs (run_id, slug, agent, user_id, session_id, status, trigger, caller_uid, request_id, traceparent,
    message, message_author, streaming, state_delta, custom_metadata, parent_run_id, root_run_id, goal_id, depth, deadline)
  values (of_run_id, of_slug, of_agent, of_user, of_session, 'queued', of_trigger, of_caller, of_request, of_traceparent,
    of_message, of_author, of_streaming, of_state, of_metadata, of_parent, of_root, of_goal, of_depth, of_deadline)
  on conflict (run_id) do nothing returning run_id, created_at into made, accepted_at;
  if made is null then
    return;
  end if;
  if of_root = of_run_id then
    insert into platform.run_trees (root_run_id, goal_id) values (of_run_id, of_goal);
  end if;
  insert into platform.outbox (topic, key, event_id, value, headers) values ('runs.commands', of_slug,
    gen_random_uuid()::text, jsonb_build_object('command', 'start', 'run_id', of_run_id, 'slug', of_slug), record_headers);
  if notifies then
    perform pg_notify('flotilla_runs', of_slug), pg_notify('flotilla_outbox', '');
  end if;
end
$$;

-- Stores an event behind all others of its tree, while the run is held under this epoch and has this many events.
create function platform.store_run_event(
  of_run_id text, of_epoch bigint, of_event text, of_before integer, events_max integer, bytes_max bigint,
  out seq bigint, out goal_seq bigint, out canceled boolean
) language plpgsql as $$
declare
  size bigint := octet_length(of_event);
  root text;
  goal bigint;
begin
  update platform.runs r set events = r.events + 1, event_bytes = r.event_bytes + size, shown = true
  where r.run_id = of_run_id and r.epoch = of_epoch and r.status = 'running' and r.events = of_before
    and r.events < events_max and r.event_bytes + size <= bytes_max
  returning r.root_run_id, r.goal_id, r.cancel_requested_at is not null into root, goal, canceled;
  if not found then
    return;
  end if;
  -- From here on until the commit no other event of the tree gets a number.
  update platform.run_trees t set last_event_id = t.last_event_id + 1 where t.root_run_id = root
  returning t.last_event_id into seq;
  if goal is not null then
    update platform.dispatches d set last_event_id = d.last_event_id + 1 where d.goal_id = goal
    returning d.last_event_id into goal_seq;
  end if;
  insert into platform.run_events (root_run_id, seq, run_id, goal_id, goal_seq, event)
  values (root, store_run_event.seq, of_run_id, goal, store_run_event.goal_seq, of_event);
end
$$;

create function platform.run_time(at timestamptz) returns text language sql stable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Ends runs, as far as the condition still holds: the first terminal state wins, and all that follows from it is written
-- together: the tree, the report to AXON and the run that brings it, and the events of the fleet. `condition`: queued, held
-- (under the epoch), lost (its lease is over) or open.
create function platform.end_runs(
  run_ids text[], condition text, of_epoch bigint, new_status text, new_error jsonb, new_summary text, reporter text,
  announces boolean
) returns table (
  "runId" text, "rootRunId" text, slug text, "goalId" bigint, trigger text, attempt integer, status text,
  "treeEnded" boolean, "lastEventId" bigint, "reportRunId" text, "othersWait" boolean
) language plpgsql as $$
#variable_conflict use_column
begin
  if cardinality(run_ids) > 1 then
    -- In one order, so that nobody waits for each other.
    perform from platform.runs where run_id = any(run_ids) order by id for no key update;
  end if;
  return query
  with ended as (
    update platform.runs r set status = new_status, error = new_error, summary = coalesce(new_summary, r.summary),
      ended_at = greatest(clock_timestamp(), r.created_at, r.started_at), holder = null, lease_until = null
    where r.run_id = any(run_ids) and case condition
      when 'queued' then r.status = 'queued'
      when 'held' then r.status = 'running' and r.epoch = of_epoch
      when 'lost' then r.status = 'running' and r.lease_until < clock_timestamp()
      else r.status in ('queued', 'running') end
    returning *),
  trees as (
    update platform.run_trees t set open_runs = t.open_runs - n.ended
    from (select root_run_id, count(*)::integer as ended from ended group by root_run_id) n
    where t.root_run_id = n.root_run_id returning t.root_run_id, t.open_runs, t.last_event_id),
  delivered as (
    update platform.run_reports p set state = case e.status when 'completed' then 'delivered' else 'undelivered' end
    from ended e where e.trigger = 'report' and p.report_run_id = e.run_id),
  reports as (
    insert into platform.run_reports (run_id, report_run_id, body)
    select run_id,
      'run_' || left(encode(sha256(convert_to('report' || chr(10) || run_id, 'UTF8')), 'hex'), 32),
      jsonb_build_object('reportId', run_id, 'runId', run_id, 'goalId', goal_id, 'agent', agent, 'userId', user_id,
        'sessionId', session_id, 'trigger', trigger, 'parentRunId', parent_run_id, 'status', status, 'error', error,
        'summary', summary, 'joined', joined, 'skipped', skipped, 'attempt', attempt,
        'startedAt', platform.run_time(started_at), 'endedAt', platform.run_time(ended_at), 'reportedBy', reporter)
    from ended where slug <> 'axon' and trigger <> 'report'
    on conflict do nothing returning run_id, report_run_id),
  report_runs as (
    insert into platform.runs (run_id, root_run_id, slug, agent, user_id, session_id, status, trigger)
    select p.report_run_id, p.report_run_id, 'axon', 'AXON', e.user_id, 'reports-' || e.session_id, 'queued', 'report'
    from reports p join ended e on e.run_id = p.run_id returning run_id),
  report_trees as (insert into platform.run_trees (root_run_id) select run_id from report_runs),
  sent as (
    insert into platform.outbox (topic, key, event_id, value, headers)
    select 'runs.commands', 'axon', gen_random_uuid()::text,
      jsonb_build_object('command', 'start', 'run_id', run_id, 'slug', 'axon'), '{}' from report_runs
    union all
    select 'fleet.events', agent, gen_random_uuid()::text,
      jsonb_build_object('event', case status when 'completed' then 'task.completed' else 'task.failed' end,
        'agent', agent, 'task_id', run_id,
        'result', jsonb_build_object('status', status, 'summary', coalesce(error->>'message', summary, ''))::text,
        'ts', floor(extract(epoch from ended_at))::bigint),
      jsonb_strip_nulls(jsonb_build_object('agent', agent, 'request-id', request_id, 'traceparent', traceparent))
    from ended where trigger <> 'report' and status <> 'canceled'
    union all
    select 'runs.events', e.slug, gen_random_uuid()::text,
      jsonb_build_object('run_id', e.run_id, 'root_run_id', e.root_run_id, 'goal_id', e.goal_id, 'attempt', e.attempt,
        'seq', null, 'goal_seq', null, 'event', null, 'status', e.status, 'tree_ended', t.open_runs = 0,
        'last_seq', t.last_event_id, 'goal_status', null), '{}'
    from ended e join trees t on t.root_run_id = e.root_run_id where announces)
  select e.run_id, e.root_run_id, e.slug, e.goal_id, e.trigger, e.attempt, e.status, coalesce(t.open_runs = 0, true),
    coalesce(t.last_event_id, 0), p.report_run_id, exists (select from platform.runs q where q.slug = e.slug and q.status = 'queued')
  from ended e left join trees t on t.root_run_id = e.root_run_id left join reports p on p.run_id = e.run_id;
end
$$;
