-- Callers share the places of a node: its next runs are chosen in turns over callers, and each caller has so many waiting there
-- at most. claim_runs keeps its parameters, so instances that were not replaced yet take turns, too; the accept_run with fewer
-- parameters stays for them.

-- Replaces the index without the caller: which callers wait at a node, and the oldest runs of each, however many these are.
create index runs_waiting on platform.runs (slug, caller_uid, id) where status = 'queued';
drop index platform.runs_queued;

-- When a run of the caller was last claimed at the node. Without a row, or after a run went back into its queue, it is the
-- caller's turn. Written under the lock of the node's row.
create table platform.run_turns (
  slug text not null,
  caller_uid text not null,
  served_at timestamptz not null,
  primary key (slug, caller_uid)
) with (fillfactor = 50);

-- The next `places` runs of a node, heads of their lanes that may be claimed at `due`. A place goes to the caller that holds the
-- fewest of the node; among these to the one that was served the longest ago, then to the one that waits the longest. Those of
-- one caller in the order in which they came. The planner has no choice but the index: a caller is a range, whose order no other
-- index has, and `offset 0` keeps it from reading all lanes at once.
create function platform.next_runs(of_slug text, places integer, due timestamptz)
returns table (run_id text, turn bigint) language plpgsql as $$
declare
  one text;
begin
  select q.caller_uid into one from platform.runs q where q.slug = of_slug and q.status = 'queued'
  order by q.caller_uid, q.id limit 1;
  -- Mostly one caller waits: what follows below takes the executor far longer to begin.
  if one is null or not exists (
    select from platform.runs q where q.slug = of_slug and q.status = 'queued' and q.caller_uid > one)
  then
    return query
    select m.run_id, row_number() over () from (
      select q.run_id from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and q.caller_uid >= one and q.caller_uid <= one
        and (q.not_before is null or q.not_before <= due)
        and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running')
            and (o.status = 'running' or o.id < q.id) offset 0)
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
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running')
            and (o.status = 'running' or o.id < q.id) offset 0)
      order by q.caller_uid, q.id limit 1) n
    order by c.held, c.served, c.oldest limit places)
  select n.run_id, row_number() over (order by f.held + n.place, f.served, f.oldest)
  from first f cross join lateral (
    select m.run_id, row_number() over () as place from (
      select q.run_id from platform.runs q
      where q.slug = of_slug and q.status = 'queued' and q.caller_uid >= f.caller_uid and q.caller_uid <= f.caller_uid
        and (q.not_before is null or q.not_before <= due)
        and not exists (
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running')
            and (o.status = 'running' or o.id < q.id) offset 0)
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
        started_at = coalesce(r.started_at, due)
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
create function platform.note_turns(slugs text[], slots integer[], room integer) returns void language plpgsql as $$
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
          select from platform.runs o where o.lane = q.lane and o.status in ('queued', 'running')
            and (o.status = 'running' or o.id < q.id))
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
-- says why: its lane is `busy` and the caller does not wait, or the `lane` is full, or so many runs of the `caller` wait at the
-- node. Runs of callers are limited by those of callers that wait. With a claimant the run is claimed as claim_runs would, where
-- it is next: then nobody needs to be woken.
create function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  claimant text, lease_ms double precision, slots_max integer, caller_waiting_max integer,
  out made text, out refused text, out active text, out accepted_at timestamptz, out claimed boolean
) language plpgsql as $$
declare
  of_lane uuid := md5(of_slug || '/' || length(of_user) || '/' || of_user || '/' || of_session)::uuid;
  waiting integer;
  open integer;
begin
  perform pg_advisory_xact_lock(hashtextextended(of_lane::text, 0));
  select count(*) filter (where r.status = 'queued' and r.trigger in ('api', 'dispatch')), count(*),
    (array_agg(r.run_id order by r.status = 'running' desc, r.id))[1]
  into waiting, open, active
  from platform.runs r where r.lane = of_lane and r.status in ('queued', 'running');
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
            and not exists (select from platform.runs o where o.lane = q.lane and o.status = 'running'))
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
