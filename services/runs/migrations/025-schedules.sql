-- Messages that go to agents by the clock.

-- Rows of before have one of the others.
alter table platform.runs drop constraint runs_trigger_check;
alter table platform.runs add constraint runs_trigger_check
  check (trigger in ('api', 'schedule', 'mention', 'dispatch', 'synthesis', 'report')) not valid;

create table platform.schedules (
  number bigint generated always as identity primary key,
  id text not null unique,
  owner_uid text not null,
  name text,
  -- Null: all agents.
  agent text,
  message json not null,
  -- Either cron or "at".
  cron text,
  timezone text not null,
  at timestamptz,
  -- Null: a new one each time.
  session_id text,
  missed text not null check (missed in ('skip', 'once')),
  paused boolean not null,
  paused_reason text,
  ends_at timestamptz,
  -- Null: it fires no more, or not while it is paused.
  next_at timestamptz,
  last_at timestamptz,
  last_run_id text,
  last_goal_id bigint,
  -- In a row, up to now.
  failures integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create index schedules_due on platform.schedules (next_at) where next_at is not null;
create index schedules_owner on platform.schedules (owner_uid, number);

-- Each planned time that came: what became of it.
create table platform.schedule_firings (
  number bigint generated always as identity primary key,
  schedule_id text not null references platform.schedules (id) on delete cascade,
  planned_at timestamptz not null,
  fired_at timestamptz not null default clock_timestamp(),
  run_id text,
  goal_id bigint,
  -- started: its run or dispatch has not ended, as far as is known here.
  status text not null check (status in ('started', 'completed', 'failed', 'canceled', 'refused', 'missed')),
  error jsonb,
  unique (schedule_id, planned_at)
);
create index schedule_firings_started on platform.schedule_firings (number) where status = 'started';
create index schedule_firings_old on platform.schedule_firings (fired_at);
