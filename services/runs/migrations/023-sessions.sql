-- The message of a run in lists, and the session as a thing of its own.

-- The first 200 characters of a message's text, without thoughts of an agent; null for no message, '' for one without text. Texts may
-- hold what a text of the database cannot, which JSON writes as escapes: half a surrogate, NUL.
create function platform.message_start(of_message json) returns text language plpgsql immutable strict as $$
declare
  readable json := of_message;
begin
  for attempt in 1..2 loop
    begin
      return (
        select left(coalesce(string_agg(left(p.part->>'text', 200), E'\n\n' order by p.n), ''), 200)
        from json_array_elements(readable->'parts') with ordinality as p (part, n)
        where json_typeof(p.part->'text') = 'string' and p.part->>'thought' is distinct from 'true');
    exception when data_exception then
      readable := regexp_replace(of_message::text, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})',
        '\1\\ufffd', 'g')::json;
    end;
  end loop;
  return '';
end
$$;

-- Lists cut nothing out of messages that may have megabytes. Runs of before have none: there the message is read.
alter table platform.runs add column message_start text;

create function platform.fill_message_start() returns trigger language plpgsql as $$
begin
  new.message_start := platform.message_start(new.message);
  return new;
end
$$;
create trigger runs_message_start before insert on platform.runs for each row when (new.message is not null)
execute function platform.fill_message_start();

-- Replaces the index without the id: whose a session is, and its runs in their order.
create index runs_of_session on platform.runs (platform.session_key(user_id, session_id), coalesce(user_uid, ''), id)
where trigger <> 'mention';
drop index platform.runs_session_user;

-- Runs of callers and of the platform that begin in one session take its lock until their commit: their ids are in the order of the
-- commits, so who has read up to an id has missed none below it. Runs that join belong to the tree of another one.
create function platform.lock_session(of_user text, of_session text) returns text language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('session ' || platform.session_key(of_user, of_session), 0));
  return '';
end
$$;

-- The runs of a session that joined no other one, with those of this user alone ('': a free name, or not known). Reports are in sessions
-- of their own, which are no user's.
create function platform.session_roots(of_user text, of_session text, of_uid text) returns setof platform.runs
language sql stable as $$
  select r.* from platform.runs r
  where platform.session_key(r.user_id, r.session_id) = platform.session_key(of_user, of_session)
    and coalesce(r.user_uid, '') = of_uid and r.trigger <> 'mention' and r.trigger <> 'report'
    and r.user_id = of_user and r.session_id = of_session
$$;

-- All runs of the session.
create function platform.session_runs(of_user text, of_session text, of_uid text) returns setof platform.runs
language sql stable as $$
  select r.* from platform.session_roots(of_user, of_session, of_uid) r
  union all
  select m.* from platform.session_roots(of_user, of_session, of_uid) r
  join platform.runs m on m.root_run_id = r.run_id and m.parent_run_id is not null
$$;
