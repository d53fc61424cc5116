-- A run may be claimed with its acceptance, and ends are written by short statements. The accept_run with fewer parameters stays
-- for instances that were not replaced yet.

-- Accepts a run into its lane, with its tree and the record that wakes the dispatchers. Not made: the run exists, or the lane
-- is full, or it is busy and the caller does not wait. Runs of callers are limited by those of callers that wait. With a
-- claimant the run is claimed as claim_runs would, where it is next: then nobody needs to be woken.
create function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  claimant text, lease_ms double precision, slots_max integer,
  out made text, out active text, out waiting integer, out accepted_at timestamptz, out claimed boolean
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
  claimed := false;
  if claimant is not null and open = 0 then
    -- Who meets another claim waits for nothing: the run is claimed as all others.
    perform from platform.run_nodes n where n.slug = of_slug for no key update skip locked;
    if found then
      select (select count(*) < slots_max from platform.runs c where c.slug = of_slug and c.status = 'running')
        and not exists (
          select from platform.runs q
          where q.slug = of_slug and q.status = 'queued' and (q.not_before is null or q.not_before <= clock_timestamp())
            and not exists (select from platform.runs o where o.lane = q.lane and o.status = 'running'))
      into claimed;
    end if;
  end if;
  accepted_at := clock_timestamp();
  insert into platform.runs (run_id, slug, agent, user_id, session_id, status, trigger, caller_uid, request_id, traceparent,
    message, message_author, streaming, state_delta, custom_metadata, parent_run_id, root_run_id, goal_id, depth, deadline,
    created_at, attempt, epoch, holder, lease_until, started_at)
  values (of_run_id, of_slug, of_agent, of_user, of_session, case when claimed then 'running' else 'queued' end, of_trigger,
    of_caller, of_request, of_traceparent, of_message, of_author, of_streaming, of_state, of_metadata, of_parent, of_root,
    of_goal, of_depth, of_deadline, accepted_at, claimed::integer, claimed::integer, case when claimed then claimant end,
    case when claimed then accepted_at + make_interval(secs => lease_ms / 1000) end, case when claimed then accepted_at end)
  on conflict (run_id) do nothing returning run_id into made;
  if made is null then
    return;
  end if;
  if of_root = of_run_id then
    insert into platform.run_trees (root_run_id, goal_id) values (of_run_id, of_goal);
  end if;
  if claimed then
    return;
  end if;
  insert into platform.outbox (topic, key, event_id, value, headers) values ('runs.commands', of_slug,
    gen_random_uuid()::text, jsonb_build_object('command', 'start', 'run_id', of_run_id, 'slug', of_slug), record_headers);
  if notifies then
    perform pg_notify('flotilla_runs', of_slug), pg_notify('flotilla_outbox', '');
  end if;
end
$$;

-- Ends runs, as far as the condition still holds: the first terminal state wins, and all that follows from it is written
-- together: the tree, the report to AXON and the run that brings it, and the events of the fleet. `condition`: queued, held
-- (under the epoch), lost (its lease is over) or open. A dispatcher publishes by itself how they ended, and claims the reports;
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
    update platform.runs r set status = new_status, error = new_error, summary = coalesce(new_summary, r.summary),
      ended_at = greatest(clock_timestamp(), r.created_at, r.started_at), holder = null, lease_until = null
    where r.run_id = one and case condition
      when 'queued' then r.status = 'queued'
      when 'held' then r.status = 'running' and r.epoch = of_epoch
      when 'lost' then r.status = 'running' and r.lease_until < clock_timestamp()
      else r.status in ('queued', 'running') end
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

-- Which runs a request led to.
create index runs_request on platform.runs (request_id) where request_id is not null;
