-- Whose a run is: the uid of its user, beside the name. A name may come to mean somebody else, when an agent is deleted and another
-- one is made under its id, or an agent is provisioned under a name that was free; a uid never does. Null: a free name, or not
-- known. The database fills it in, so rows of instances that were not replaced yet have it, too: '' stands only until then.
alter table platform.runs add column user_uid text;
alter table platform.dispatches add column user_uid text;

-- Who has the name, and had it at that time already: an agent by its id in any case, an agent or a person by uid. `operator`, where
-- no agent is called so, works at the command line. Null: nobody of the platform. In plpgsql: planned once for a session.
create function platform.uid_named(of_name text, at_time timestamptz default 'infinity') returns text
language plpgsql stable as $$
begin
  return coalesce(
    (select a.uid from platform.agents a
     where of_name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' and lower(a.agent_id) = lower(of_name)
       and a.created_at <= at_time),
    (select a.uid from platform.agents a where a.uid = of_name),
    (select p.uid from platform.people p where p.uid = of_name),
    case of_name when 'operator' then of_name end);
end
$$;

-- An agent that was deleted. Its id may be another one's by now.
create function platform.is_gone(of_caller text) returns boolean language plpgsql stable as $$
begin
  return starts_with(of_caller, 'agent_') and not exists (select from platform.agents a where a.uid = of_caller);
end
$$;

-- Whose a new run or dispatch is. Who names itself by uid means itself, whatever else has the name. A caller that was deleted since
-- it proved who it is may have named itself by its id.
create function platform.uid_of_user(of_user text, of_caller text) returns text language plpgsql stable as $$
begin
  if of_user = of_caller or platform.is_gone(of_caller) then
    return of_caller;
  end if;
  return platform.uid_named(of_user);
end
$$;

-- A run that joined another one, or belongs to a dispatch, is whose that is; a report, whose the run is that it is about.
create function platform.uid_of_run(
  of_run_id text, of_root text, of_goal bigint, of_trigger text, of_user text, of_caller text
) returns text language plpgsql stable as $$
begin
  if of_root <> of_run_id then
    return (select r.user_uid from platform.runs r where r.run_id = of_root);
  elsif of_goal is not null then
    return (select d.user_uid from platform.dispatches d where d.goal_id = of_goal);
  elsif of_trigger = 'report' then
    return (
      select r.user_uid from platform.run_reports p join platform.runs r on r.run_id = p.run_id
      where p.report_run_id = of_run_id);
  end if;
  return platform.uid_of_user(of_user, of_caller);
end
$$;

create function platform.fill_run_user() returns trigger language plpgsql as $$
begin
  new.user_uid :=
    platform.uid_of_run(new.run_id, new.root_run_id, new.goal_id, new.trigger, new.user_id, new.caller_uid);
  return new;
end
$$;
create trigger runs_user_uid before insert on platform.runs for each row when (new.user_uid = '')
execute function platform.fill_run_user();

create function platform.fill_dispatch_user() returns trigger language plpgsql as $$
begin
  new.user_uid := platform.uid_of_user(new.user_id, new.caller_uid);
  return new;
end
$$;
create trigger dispatches_user_uid before insert on platform.dispatches for each row when (new.user_uid = '')
execute function platform.fill_dispatch_user();

-- Rows of before: those of people and of the command line, and those of agents that were there before them, so that the name was the
-- same one's throughout. Where the caller is gone the name may have been its own, and is nobody else's. All others stay null.
create function platform.uid_before(of_user text, of_caller text, at_time timestamptz) returns text
language plpgsql stable as $$
begin
  return case when of_user = of_caller then of_caller
    else coalesce(platform.uid_named(of_user, at_time), case when platform.is_gone(of_caller) then of_caller end) end;
end
$$;

update platform.dispatches d set user_uid = n.uid
from (select o.goal_id, platform.uid_before(o.user_id, o.caller_uid, o.created_at) as uid from platform.dispatches o) n
where d.goal_id = n.goal_id and n.uid is not null;

-- As many of the newest as a start may wait for; older ones are seen by their callers and admins.
with roots as materialized (
  select r.run_id, case
    when r.goal_id is not null then (select d.user_uid from platform.dispatches d where d.goal_id = r.goal_id)
    else platform.uid_before(r.user_id, r.caller_uid, r.created_at) end as uid
  from platform.runs r
  where r.root_run_id = r.run_id and r.trigger <> 'report'
    and r.id > (select coalesce(max(newest.id), 0) - 200000 from platform.runs newest))
update platform.runs r set user_uid = roots.uid from roots where r.root_run_id = roots.run_id and roots.uid is not null;

update platform.runs r set user_uid = o.user_uid
from platform.run_reports p join platform.runs o on o.run_id = p.run_id
where r.run_id = p.report_run_id and o.user_uid is not null;

drop function platform.uid_before(text, text, timestamptz);

alter table platform.runs alter column user_uid set default '';
alter table platform.dispatches alter column user_uid set default '';

create index runs_user_uid on platform.runs (user_uid, id) where trigger <> 'report' and user_uid is not null;

-- A hash, because the ids together may be too long for an index.
create function platform.session_key(of_user text, of_session text) returns uuid language sql immutable as $$
  select md5(length(of_user)::text || '/' || of_user || '/' || of_session)::uuid
$$;
create index runs_session_user on platform.runs (platform.session_key(user_id, session_id), coalesce(user_uid, ''))
where trigger <> 'mention';

-- Whether the session of this name has runs of somebody else: the nodes would hand over what was said there. Two looks into the
-- index, however long the session is. Runs that joined others are in the sessions of these.
create function platform.session_of_other(of_user text, of_session text, of_uid text) returns boolean
language plpgsql stable as $$
begin
  return exists (
      select from platform.runs r
      where platform.session_key(r.user_id, r.session_id) = platform.session_key(of_user, of_session)
        and r.trigger <> 'mention' and coalesce(r.user_uid, '') < coalesce(of_uid, ''))
    or exists (
      select from platform.runs r
      where platform.session_key(r.user_id, r.session_id) = platform.session_key(of_user, of_session)
        and r.trigger <> 'mention' and coalesce(r.user_uid, '') > coalesce(of_uid, ''));
end
$$;

-- As before, but a run of a caller is refused in a session that has runs of another user of this name, and it says whose the run is
-- (`uid`). It takes the place of the function with these parameters: instances that were not replaced yet refuse as well.
drop function platform.accept_run(
  text, text, text, text, text, text, text, text, text, json, text, boolean, json, json, text, text, bigint, integer,
  timestamptz, boolean, boolean, integer, integer, jsonb, boolean, text, double precision, integer, integer);

-- Accepts a run into its lane, with its tree and the record that wakes the dispatchers. Not made: the run exists, or `refused`
-- says why: the session is another `user`'s, its lane is `busy` and the caller does not wait, or the `lane` is full, or so many
-- runs of the `caller` wait at the node. Runs of callers are limited by those of callers that wait. With a claimant the run is
-- claimed as claim_runs would, where it is next: then nobody needs to be woken.
create function platform.accept_run(
  of_run_id text, of_slug text, of_agent text, of_user text, of_session text, of_trigger text, of_caller text,
  of_request text, of_traceparent text, of_message json, of_author text, of_streaming boolean, of_state json,
  of_metadata json, of_parent text, of_root text, of_goal bigint, of_depth integer, of_deadline timestamptz,
  rejects boolean, limited boolean, waiting_max integer, open_max integer, record_headers jsonb, notifies boolean,
  claimant text, lease_ms double precision, slots_max integer, caller_waiting_max integer,
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
    created_at, attempt, epoch, holder, lease_until, started_at, user_uid)
  values (of_run_id, of_slug, of_agent, of_user, of_session, case when claimed then 'running' else 'queued' end, of_trigger,
    of_caller, of_request, of_traceparent, of_message, of_author, of_streaming, of_state, of_metadata, of_parent, of_root,
    of_goal, of_depth, of_deadline, accepted_at, claimed::integer, claimed::integer, case when claimed then claimant end,
    case when claimed then accepted_at + make_interval(secs => lease_ms / 1000) end, case when claimed then accepted_at end,
    uid)
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
