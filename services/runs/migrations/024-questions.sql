-- Runs may ask back, and have metadata of their callers. A run that asks waits in `input_required`: no dispatcher holds it, and its
-- lane waits behind it as behind a running one. Functions keep their parameters where instances that were not replaced yet call
-- them: these accept, claim and end runs as the new ones do.

alter table platform.runs drop constraint runs_status_check;
alter table platform.runs add constraint runs_status_check
  check (status in ('queued', 'running', 'input_required', 'completed', 'failed', 'canceled'));

alter table platform.runs
  -- Texts by name, for filters.
  add column metadata jsonb,
  -- Somebody's newer message took the place of the run: `interrupted`.
  add column cancel_reason text,
  -- Calls and text; json, because texts of agents may hold what jsonb refuses.
  add column question json,
  add column asked_at timestamptz,
  add column expires_at timestamptz,
  -- The attempt that asked last; 0: none. Tries of a start count from there.
  add column asked_attempt integer not null default 0,
  -- The last answer: the message that the node is to be given, the id of its event, and that event's place in the tree.
  add column input json,
  add column answer_id text,
  add column answer_seq bigint,
  -- The first start since the last answer: the limit of a run counts from there.
  add column resumed_at timestamptz;

create unique index runs_one_a_lane_asks on platform.runs (lane) where status in ('running', 'input_required');
drop index platform.runs_one_a_lane;
alter index platform.runs_one_a_lane_asks rename to runs_one_a_lane;
create index runs_lane_asks on platform.runs (lane, id) where status in ('queued', 'running', 'input_required');
drop index platform.runs_lane;
alter index platform.runs_lane_asks rename to runs_lane;
-- Few runs ask at a time.
create index runs_asking on platform.runs (root_run_id) where status = 'input_required';
create index runs_metadata on platform.runs using gin (metadata jsonb_path_ops) where metadata is not null;

-- The next `places` runs of a node, heads of their lanes that may be claimed at `due`. A place goes to the caller that holds the
-- fewest of the node; among these to the one that was served the longest ago, then to the one that waits the longest. Those of
-- one caller in the order in which they came. The planner has no choice but the index: a caller is a range, whose order no other
-- index has, and `offset 0` keeps it from reading all lanes at once.
create or replace function platform.next_runs(of_slug text, places integer, due timestamptz)
returns table (run_id text, turn bigint) language plpgsql as $$
declare
  one text;
begin
  select q.caller_uid into one from platform.runs q where q.slug = of_slug and q.status = 'queued'
  order by q.caller_uid, q.id limit 1;
  -- Mostly one caller waits: the statement below takes the executor far longer to begin.
  if one is null or not exists (
    select from platform.runs q where q.slug = of_slug and q.status = 'queued' and q.caller_uid > one)
  then
    return query
    select m.run_id, row_number() over () from (
      select q.run_id from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and q.caller_uid >= one and q.caller_uid <= one
        and (q.not_before is null or q.not_before <= due)
        and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running', 'input_required')
            and (o.status <> 'queued' or o.id < q.id) offset 0)
      order by q.caller_uid, q.id limit places) m;
    return;
  end if;
  return query
  with recursive waiting as (
    -- One look into the index for each caller, not for each run.
    (select q.caller_uid, q.id as oldest from platform.runs q where q.slug = of_slug and q.status = 'queued'
     order by q.caller_uid, q.id limit 1)
    union all
    select n.caller_uid, n.oldest from waiting w cross join lateral (
      select q.caller_uid, q.id as oldest from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and q.caller_uid > w.caller_uid
      order by q.caller_uid, q.id limit 1) n),
  running as (
    select r.caller_uid, count(*) as held from platform.runs r where r.slug = of_slug and r.status = 'running'
    group by r.caller_uid),
  callers as (
    select w.caller_uid, w.oldest, coalesce(r.held, 0) as held, coalesce(t.served_at, '-infinity') as served
    from waiting w left join running r on r.caller_uid = w.caller_uid
    left join platform.run_turns t on t.slug = of_slug and t.caller_uid = w.caller_uid
    order by 3, 4, 2),
  -- No caller behind these can have one of the next places.
  first as materialized (
    select c.* from callers c cross join lateral (
      select from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and q.caller_uid >= c.caller_uid and q.caller_uid <= c.caller_uid
        and (q.not_before is null or q.not_before <= due)
        and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running', 'input_required')
            and (o.status <> 'queued' or o.id < q.id) offset 0)
      order by q.caller_uid, q.id limit 1) n
    order by c.held, c.served, c.oldest limit places)
  select n.run_id, row_number() over (order by f.held + n.place, f.served, f.oldest)
  from first f cross join lateral (
    select m.run_id, row_number() over () as place from (
      select q.run_id from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and q.caller_uid >= f.caller_uid and q.caller_uid <= f.caller_uid
        and (q.not_before is null or q.not_before <= due)
        and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running', 'input_required')
            and (o.status <> 'queued' or o.id < q.id) offset 0)
      order by q.caller_uid, q.id limit places) m) n
  order by 2 limit places;
end
$$;

-- Claims the next runs of a node, as long as it has free slots: slots_max over all dispatchers. Another dispatcher waits for the
-- node's row, and looks only then, so no slot is counted twice and no turn given twice. A function, because the lock must not
-- wait for a client that was paused in the midst of a transaction.
create or replace function platform.claim_runs(
  of_slug text, slots_max integer, runs_max integer, claimant text, lease_ms double precision
) returns setof platform.runs language plpgsql as $$
declare
  places integer;
  due timestamptz;
  ids text[];
begin
  perform from platform.run_nodes n where n.slug = of_slug for no key update;
  due := clock_timestamp();
  select least(runs_max, slots_max - count(*)) into places
  from platform.runs c where c.slug = of_slug and c.status = 'running';
  if places <= 0 then
    return;
  end if;
  select array_agg(n.run_id order by n.turn) into ids from platform.next_runs(of_slug, places, due) n;
  if ids is null then
    return;
  end if;
  return query
    with claimed as (
      update platform.runs r set status = 'running', attempt = r.attempt + 1, epoch = r.epoch + 1, shown = false,
        holder = claimant, lease_until = due + make_interval(secs => lease_ms / 1000),
        started_at = coalesce(r.started_at, due),
        resumed_at = case when r.asked_attempt > 0 then coalesce(r.resumed_at, due) end
      where r.run_id = any(ids) and r.status = 'queued'
      returning r.*),
    served as (
      insert into platform.run_turns (slug, caller_uid, served_at)
      select of_slug, c.caller_uid, due + max(array_position(ids, c.run_id)) * interval '1 microsecond'
      from claimed c group by c.caller_uid
      on conflict (slug, caller_uid) do update set served_at = excluded.served_at)
    select * from claimed;
end
$$;

-- Notes since when runs could have begun (head_at): while their node is away that holds for all heads of lanes, otherwise for
-- those whose turn has come and for whom there is a place. Who waits for a place that others hold has no such time.
-- `slots`: what each node takes, null where it is not known here; `room`: what this dispatcher can take on. A row that somebody
-- holds just now is looked at by the next sweep.
create or replace function platform.note_turns(slugs text[], slots integer[], room integer) returns void language plpgsql as $$
declare
  node record;
  places integer;
  ids text[];
begin
  for node in
    select s.slug, s.slots_max, n.slug is null or n.away_since is not null as away
    from unnest(slugs, slots) as s (slug, slots_max) left join platform.run_nodes n on n.slug = s.slug
  loop
    if node.away then
      update platform.runs r set head_at = clock_timestamp() where r.run_id in (
        select q.run_id from platform.runs q
        where q.slug = node.slug and q.status = 'queued' and q.head_at is null and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running', 'input_required')
            and (o.status <> 'queued' or o.id < q.id))
        for no key update skip locked);
    elsif node.slots_max is not null then
      select greatest(0, least(room, node.slots_max - count(*))) into places
      from platform.runs c where c.slug = node.slug and c.status = 'running';
      -- Those that are tried again in a moment count as well.
      select coalesce(array_agg(n.run_id), '{}') into ids from platform.next_runs(node.slug, places, 'infinity') n;
      update platform.runs r set head_at = case when r.run_id = any(ids) then clock_timestamp() end where r.run_id in (
        select q.run_id from platform.runs q
        where q.slug = node.slug and q.status = 'queued' and (q.head_at is null) = (q.run_id = any(ids))
        for no key update skip locked);
    end if;
  end loop;
end
$$;

-- Accepts a run into its lane, with its tree and the record that wakes the dispatchers. Not made: the run exists, or `refused`
-- says why: the session is another `user`'s, its lane is `busy` and the caller does not wait, or the `lane` is full, or so many
-- runs of the `caller` wait at the node. Runs of callers are limited by those of callers that wait. With a claimant the run is
-- claimed as claim_runs would, where it is next: then nobody needs to be woken.
create function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  claimant text, lease_ms double precision, slots_max integer, caller_waiting_max integer, of_labels jsonb,
  out made text, out refused text, out active text, out accepted_at timestamptz, out claimed boolean, out uid text
) language plpgsql as $$
declare
  of_lane uuid := md5(of_slug || '/' || length(of_user) || '/' || of_user || '/' || of_session)::uuid;
  waiting integer;
  open integer;
begin
  perform pg_advisory_xact_lock(hashtextextended(of_lane::text, 0));
  uid := platform.uid_of_run(of_run_id, of_root, of_goal, of_trigger, of_user, of_caller);
  -- First, because what else is said tells of the session.
  if limited and platform.session_of_other(of_user, of_session, uid) then
    refused := 'user';
    return;
  end if;
  select count(*) filter (where r.status = 'queued' and r.trigger in ('api', 'schedule', 'dispatch')), count(*),
    (array_agg(r.run_id order by r.status <> 'queued' desc, r.id))[1]
  into waiting, open, active
  from platform.runs r where r.lane = of_lane and r.status in ('queued', 'running', 'input_required');
  refused := case
    when limited and rejects and open > 0 then 'busy'
    when limited and waiting >= waiting_max or not limited and open >= open_max then 'lane'
  end;
  if refused is not null then
    return;
  end if;
  claimed := false;
  if claimant is not null and open = 0 then
    -- Who meets another claim waits for nothing: the run is claimed as all others.
    perform from platform.run_nodes n where n.slug = of_slug for no key update skip locked;
    if found then
      select (select count(*) < slots_max from platform.runs c where c.slug = of_slug and c.status = 'running')
        and not exists (
          select from platform.runs q
          where q.slug = of_slug and q.status = 'queued' and (q.not_before is null or q.not_before <= clock_timestamp())
            and not exists (select from platform.runs o where o.lane = q.lane and o.status in ('running', 'input_required')))
      into claimed;
    end if;
  end if;
  if not claimed and caller_waiting_max is not null then
    -- Who asks for more waits for those of the same caller that are being accepted: none is overlooked.
    if limited then
      perform pg_advisory_xact_lock(hashtextextended('runs of ' || of_caller || ' at ' || of_slug, 0));
    end if;
    if (select count(*) >= caller_waiting_max from (
      select from platform.runs q where q.slug = of_slug and q.status = 'queued' and q.caller_uid = of_caller
      limit caller_waiting_max) w)
    then
      refused := 'caller';
      return;
    end if;
  end if;
  accepted_at := clock_timestamp();
  insert into platform.runs (run_id, slug, agent, user_id, session_id, status, trigger, caller_uid, request_id, traceparent,
    message, message_author, streaming, state_delta, custom_metadata, parent_run_id, root_run_id, goal_id, depth, deadline,
    created_at, attempt, epoch, holder, lease_until, started_at, user_uid, metadata)
  values (of_run_id, of_slug, of_agent, of_user, of_session, case when claimed then 'running' else 'queued' end, of_trigger,
    of_caller, of_request, of_traceparent, of_message, of_author, of_streaming, of_state, of_metadata, of_parent, of_root,
    of_goal, of_depth, of_deadline, accepted_at, claimed::integer, claimed::integer, case when claimed then claimant end,
    case when claimed then accepted_at + make_interval(secs => lease_ms / 1000) end, case when claimed then accepted_at end,
    uid, of_labels)
  on conflict (run_id) do nothing returning run_id into made;
  if made is null then
    return;
  end if;
  if of_root = of_run_id then
    insert into platform.run_trees (root_run_id, goal_id) values (of_run_id, of_goal);
  end if;
  if claimed then
    insert into platform.run_turns as t (slug, caller_uid, served_at) values (of_slug, of_caller, accepted_at)
    on conflict (slug, caller_uid) do update set served_at = excluded.served_at;
    return;
  end if;
  insert into platform.outbox (topic, key, event_id, value, headers) values ('runs.commands', of_slug,
    gen_random_uuid()::text, jsonb_build_object('command', 'start', 'run_id', of_run_id, 'slug', of_slug), record_headers);
  if notifies then
    perform pg_notify('flotilla_runs', of_slug), pg_notify('flotilla_outbox', '');
  end if;
end
$$;

-- For instances that know no metadata.
create or replace function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  claimant text, lease_ms double precision, slots_max integer, caller_waiting_max integer,
  out made text, out refused text, out active text, out accepted_at timestamptz, out claimed boolean, out uid text
) language plpgsql as $$
begin
  select a.made, a.refused, a.active, a.accepted_at, a.claimed, a.uid
  into made, refused, active, accepted_at, claimed, uid
  from platform.accept_run(
    of_run_id, of_slug, of_agent, of_user, of_session, of_trigger, of_caller, of_request,
    of_traceparent, of_message, of_author, of_streaming, of_state, of_metadata, of_parent, of_root, of_goal, of_depth,
    of_deadline, rejects, limited, waiting_max, open_max, record_headers, notifies, claimant, lease_ms, slots_max,
    caller_waiting_max, null) a;
end
$$;

-- For instances that know no turns: a lane that may not be entered counts as full.
create or replace function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  claimant text, lease_ms double precision, slots_max integer,
  out made text, out active text, out waiting integer, out accepted_at timestamptz, out claimed boolean
) language plpgsql as $$
declare
  why text;
begin
  select a.made, a.active, a.accepted_at, a.claimed, a.refused into made, active, accepted_at, claimed, why
  from platform.accept_run(
    of_run_id, of_slug, of_agent, of_user, of_session, of_trigger, of_caller, of_request,
    of_traceparent, of_message, of_author, of_streaming, of_state, of_metadata, of_parent, of_root, of_goal, of_depth,
    of_deadline, rejects, limited, waiting_max, open_max, record_headers, notifies, claimant, lease_ms, slots_max,
    null, null) a;
  waiting := case when why is null or why = 'busy' then 0 else waiting_max end;
end
$$;

-- Ends runs, as far as the condition still holds: the first terminal state wins, and all that follows from it is written
-- together: the tree, the report to AXON and the run that brings it, and the events of the fleet. `condition`: queued, unheld
-- (queued or asking), held (under the epoch), lost (its lease is over), expired (its question is) or open. A dispatcher publishes by itself how they ended, and claims the reports;
-- for others `announces` writes both to the outbox.
create or replace function platform.end_runs(
  run_ids text[], condition text, of_epoch bigint, new_status text, new_error jsonb, new_summary text, reporter text,
  announces boolean
) returns table (
  "runId" text, "rootRunId" text, slug text, "goalId" bigint, trigger text, attempt integer, status text,
  "treeEnded" boolean, "lastEventId" bigint, "reportRunId" text, "othersWait" boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  ids text[] := run_ids;
  one text;
  e platform.runs;
  open integer;
  headers jsonb;
begin
  if cardinality(run_ids) > 1 then
    -- In one order, so that nobody waits for each other.
    select coalesce(array_agg(o.run_id), '{}') into ids
    from (select r.run_id from platform.runs r where r.run_id = any(run_ids) order by r.id for no key update) o;
  end if;
  -- Short statements, each planned once: a single one for all of it takes the executor far longer to begin.
  foreach one in array ids loop
    update platform.runs r set status = new_status, error = case
        when new_status = 'canceled' and new_error is null and r.cancel_reason = 'interrupted' then jsonb_build_object(
          'code', 'interrupted', 'message', 'A newer message of the session took its place.', 'retryable', false)
        else new_error end,
      input = null, summary = coalesce(new_summary, r.summary),
      ended_at = greatest(clock_timestamp(), r.created_at, r.started_at), holder = null, lease_until = null
    where r.run_id = one and case condition
      when 'queued' then r.status = 'queued'
      when 'unheld' then r.status in ('queued', 'input_required')
      when 'expired' then r.status = 'input_required' and r.expires_at < clock_timestamp()
      when 'held' then r.status = 'running' and r.epoch = of_epoch
      when 'lost' then r.status = 'running' and r.lease_until < clock_timestamp()
      else r.status in ('queued', 'running', 'input_required') end
    returning r.* into e;
    continue when not found;
    update platform.run_trees t set open_runs = t.open_runs - 1 where t.root_run_id = e.root_run_id
    returning t.open_runs, t.last_event_id into open, "lastEventId";
    "reportRunId" := null;
    if e.trigger = 'report' then
      update platform.run_reports p set state = case e.status when 'completed' then 'delivered' else 'undelivered' end
      where p.report_run_id = e.run_id;
    elsif e.slug <> 'axon' then
      insert into platform.run_reports (run_id, report_run_id, body) values (e.run_id,
        'run_' || left(encode(sha256(convert_to('report' || chr(10) || e.run_id, 'UTF8')), 'hex'), 32),
        jsonb_build_object('reportId', e.run_id, 'runId', e.run_id, 'goalId', e.goal_id, 'agent', e.agent,
          'userId', e.user_id, 'sessionId', e.session_id, 'trigger', e.trigger, 'parentRunId', e.parent_run_id,
          'status', e.status, 'error', e.error, 'summary', e.summary, 'joined', e.joined, 'skipped', e.skipped,
          'attempt', e.attempt, 'startedAt', platform.run_time(e.started_at), 'endedAt', platform.run_time(e.ended_at),
          'reportedBy', reporter))
      on conflict do nothing returning report_run_id into "reportRunId";
    end if;
    if "reportRunId" is not null then
      insert into platform.runs (run_id, root_run_id, slug, agent, user_id, session_id, status, trigger)
      values ("reportRunId", "reportRunId", 'axon', 'AXON', e.user_id, 'reports-' || e.session_id, 'queued', 'report');
      insert into platform.run_trees (root_run_id) values ("reportRunId");
    end if;
    if e.trigger <> 'report' and e.status <> 'canceled' then
      headers := jsonb_strip_nulls(
        jsonb_build_object('agent', e.agent, 'request-id', e.request_id, 'traceparent', e.traceparent));
      insert into platform.outbox (topic, key, event_id, value, headers) values (
        'fleet.events', e.agent, gen_random_uuid()::text,
        jsonb_build_object('event', case e.status when 'completed' then 'task.completed' else 'task.failed' end,
          'agent', e.agent, 'task_id', e.run_id, 'result',
          jsonb_build_object('status', e.status, 'summary', coalesce(e.error->>'message', e.summary, ''))::text,
          'ts', floor(extract(epoch from e.ended_at))::bigint), headers);
    end if;
    if announces and "reportRunId" is not null then
      insert into platform.outbox (topic, key, event_id, value, headers) values (
        'runs.commands', 'axon', gen_random_uuid()::text,
        jsonb_build_object('command', 'start', 'run_id', "reportRunId", 'slug', 'axon'), '{}');
    end if;
    if announces then
      insert into platform.outbox (topic, key, event_id, value, headers) values (
        'runs.events', e.slug, gen_random_uuid()::text,
        jsonb_build_object('run_id', e.run_id, 'root_run_id', e.root_run_id, 'goal_id', e.goal_id, 'attempt', e.attempt,
          'seq', null, 'goal_seq', null, 'event', null, 'status', e.status, 'tree_ended', coalesce(open = 0, true),
          'last_seq', "lastEventId", 'goal_status', null), '{}');
    end if;
    "runId" := e.run_id;
    "rootRunId" := e.root_run_id;
    slug := e.slug;
    "goalId" := e.goal_id;
    trigger := e.trigger;
    attempt := e.attempt;
    status := e.status;
    "treeEnded" := coalesce(open = 0, true);
    "lastEventId" := coalesce("lastEventId", 0);
    "othersWait" := exists (select from platform.runs q where q.slug = e.slug and q.status = 'queued');
    return next;
  end loop;
end
$$;
