-- What the gateways share about the agents' limits: one row a key, changed by one statement, by this database's clock.

-- Operations of a UTC day that gateways leased: begun ones, and what is still held. Outlives a crash of the server.
create table platform.limit_days (
  key text primary key,
  day date not null,
  leased bigint not null check (leased >= 0),
  -- Those that began, where one process alone counts and writes them down from time to time; else see used_today.
  begun bigint check (begun >= 0)
);

-- Who holds what at this moment. After a crash of the server it is empty, which a second makes good.
create unlogged table platform.limit_leases (
  key text primary key,
  -- When the operations of the last second began, in ms since 1970.
  began double precision[] not null default '{}',
  -- By instance: seq, seen, rate, rate_until, slots, busy, slots_until, and of `day`: day_leased, day_used.
  holders jsonb not null default '{}',
  day date not null default '-infinity',
  touched_at timestamptz not null default now()
) with (fillfactor = 50);

-- One instance reports what it did and what it keeps of its lease, and is told what it has further. A permit lives for
-- 800 ms, an operation counts for a second from its beginning, a slot that is not renewed lives for two.
-- Tests give the time; everybody else takes the database's.
create function platform.lease(ask jsonb, given_ms double precision default null) returns jsonb language plpgsql as $$
declare
  own_key constant text := ask ->> 'key';
  own_name constant text := ask ->> 'instance';
  rate_limit constant int := (ask #>> '{limits,rate}')::int;
  day_limit constant bigint := (ask #>> '{limits,day}')::bigint;
  slot_limit constant int := (ask #>> '{limits,slots}')::int;
  row_of platform.limit_leases;
  now_ms double precision;
  today date;
  begun double precision[];
  pending double precision[] := '{}';
  kept jsonb := '{}';
  name text;
  one jsonb;
  own jsonb;
  stale boolean;
  same_day boolean;
  others_rate int := 0;
  others_active int := 0;
  others_slots int := 0;
  others_unused bigint := 0;
  slots_elsewhere boolean := false;
  room int;
  rate int := 0;
  rate_wait double precision := 0;
  leased bigint := 0;
  leased_before bigint := 0;
  granted bigint := 0;
  own_leased bigint;
  own_used bigint;
  slots int;
begin
  insert into platform.limit_leases as l (key) values (own_key)
    on conflict (key) do update set touched_at = clock_timestamp()
    returning l.* into row_of;
  -- Read behind the lock of the row: whoever waited for it must not bring an older time.
  now_ms := coalesce(given_ms, extract(epoch from clock_timestamp()) * 1000);
  today := (to_timestamp(now_ms / 1000) at time zone 'utc')::date;
  same_day := row_of.day = today;
  begun := row_of.began;
  select d.leased into leased_before from platform.limit_days d where d.key = own_key and d.day = today;
  leased_before := coalesce(leased_before, 0);
  leased := leased_before;

  for name, one in select * from jsonb_each(row_of.holders) loop
    if not same_day then
      one := one || '{"day_leased": 0, "day_used": 0}';
    end if;
    if name = own_name then
      own := one;
      continue;
    end if;
    -- What ran out unreported counts as used when it ran out.
    if (one ->> 'rate')::int > 0 and (one ->> 'rate_until')::float8 <= now_ms then
      begun := begun || array_fill((one ->> 'rate_until')::float8, array[(one ->> 'rate')::int]);
      one := one || '{"rate": 0}';
    end if;
    if (one ->> 'slots_until')::float8 <= now_ms then
      one := one || '{"slots": 0, "busy": 0}';
    end if;
    -- Silent for so long it is dead: what it held of the day counts as used.
    continue when (one ->> 'seen')::float8 < now_ms - 10000;
    kept := kept || jsonb_build_object(name, one);
    others_rate := others_rate + (one ->> 'rate')::int;
    others_slots := others_slots + (one ->> 'slots')::int;
    others_unused := others_unused + (one ->> 'day_leased')::bigint - (one ->> 'day_used')::bigint;
    slots_elsewhere := slots_elsewhere or (one ->> 'slots')::int > (one ->> 'busy')::int;
    if (one ->> 'seen')::float8 > now_ms - 1000 then
      others_active := others_active + 1;
    end if;
    if (one ->> 'rate')::int > 0 then
      pending := pending || array_fill((one ->> 'rate_until')::float8, array[(one ->> 'rate')::int]);
    end if;
  end loop;

  -- Of an instance that is not known (any more) the day's lease is counted as leased already.
  own_leased := case when ask ->> 'day' = today::text then (ask ->> 'day_leased')::bigint else 0 end;
  own_used := case when ask ->> 'day' = today::text then (ask ->> 'day_used')::bigint else 0 end;
  own := coalesce(own, jsonb_build_object('seq', 0, 'rate', 0, 'rate_until', 0, 'slots', 0, 'slots_until', 0,
    'busy', 0, 'seen', 0, 'day_leased', own_leased, 'day_used', 0));
  stale := (ask ->> 'seq')::bigint <= (own ->> 'seq')::bigint;
  if stale then
    return jsonb_build_object('rate', 0, 'rate_wait_ms', 50, 'day_granted', 0, 'day', today, 'day_left_ms', 0,
      'day_used', leased, 'slots', (own ->> 'slots')::int, 'rate_elsewhere', false, 'day_elsewhere', false,
      'slots_elsewhere', false);
  end if;

  begun := begun || array(
    select now_ms - ago::float8 from jsonb_array_elements_text(ask -> 'began_ago') as ago);
  begun := array(select b from unnest(begun) as b where b > now_ms - 1000 order by b);
  leased := greatest(0, leased + own_leased - (own ->> 'day_leased')::bigint);

  if rate_limit is not null then
    room := rate_limit - cardinality(begun) - others_rate - (ask ->> 'rate_held')::int;
    -- Whoever shares the room leaves some of it, down to a single permit.
    rate := greatest(0, least((ask ->> 'rate_wanted')::int, room,
      case when others_active = 0 then room else ceil(room::float8 / (2 * (others_active + 1)))::int end));
    if room <= 0 then
      pending := array(select b from unnest(begun || pending) as b order by b);
      rate_wait := greatest(0, coalesce(pending[least(1 - room, cardinality(pending))] + 1000 - now_ms, 1000));
    end if;
  end if;

  if day_limit is not null and (ask ->> 'day_wanted')::bigint > 0 then
    -- Ahead of what is asked for up to a hundredth of the rest: so much is lost at most with an instance that dies.
    granted := greatest(0, least(day_limit - leased, greatest((ask ->> 'day_wanted')::bigint,
      least(500, greatest(1, (day_limit - leased) / 100)) - (own_leased - own_used))));
    leased := leased + granted;
  end if;
  if leased <> leased_before then
    insert into platform.limit_days as d (key, day, leased) values (own_key, today, leased)
      on conflict (key) do update set day = excluded.day, leased = excluded.leased;
  end if;

  slots := case when slot_limit is null then 0 else
    greatest((ask ->> 'busy')::int, least((ask ->> 'slots_wanted')::int, slot_limit - others_slots), 0) end;
  own := jsonb_build_object('seq', (ask ->> 'seq')::bigint, 'seen', now_ms,
    'rate', (ask ->> 'rate_held')::int + rate, 'rate_until', now_ms + 800,
    'slots', slots, 'busy', (ask ->> 'busy')::int, 'slots_until', now_ms + 2000,
    'day_leased', own_leased + granted, 'day_used', own_used);
  update platform.limit_leases l
    set began = begun, holders = kept || jsonb_build_object(own_name, own), day = today
    where l.key = own_key;

  return jsonb_build_object('rate', rate, 'rate_wait_ms', rate_wait, 'day_granted', granted, 'day', today,
    'day_left_ms', 86400000 - (now_ms - floor(now_ms / 86400000) * 86400000),
    'day_used', leased - others_unused - (own_leased + granted - own_used), 'slots', slots,
    'rate_elsewhere', others_rate > 0, 'day_elsewhere', others_unused > 0, 'slots_elsewhere', slots_elsewhere);
end $$;

-- Operations of today that began, as far as it was reported.
create function platform.used_today(of_key text) returns bigint language sql stable as $$
  select coalesce(max(d.begun), coalesce(max(d.leased), 0) - coalesce(sum(
      (h.holder ->> 'day_leased')::bigint - (h.holder ->> 'day_used')::bigint), 0)::bigint)
  from platform.limit_days d
  left join platform.limit_leases l on l.key = d.key and l.day = d.day
  left join lateral jsonb_each(l.holders) as h (name, holder)
    on (h.holder ->> 'seen')::float8 > extract(epoch from clock_timestamp()) * 1000 - 10000
  where d.key = of_key and d.day = (clock_timestamp() at time zone 'utc')::date
$$;
