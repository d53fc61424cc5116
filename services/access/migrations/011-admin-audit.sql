-- Who did what, by the main API or the command line; each row is also a record of the topic admin.audit.
create table platform.admin_actions (
  -- In the order of writing: the newest first is how they are listed.
  seq bigint generated always as identity primary key,
  -- The event id of its record.
  id text not null unique,
  actor_kind text not null check (actor_kind in ('agent', 'person', 'command_line')),
  actor_id text not null,
  action text not null,
  target text not null,
  before jsonb,
  after jsonb,
  -- The error code of what was refused or failed.
  reason text,
  request_id text,
  outcome text not null check (outcome in ('done', 'refused', 'failed')),
  count integer not null check (count >= 0),
  occurred_at timestamptz not null
);
create index admin_actions_actor on platform.admin_actions (actor_id, seq);
create index admin_actions_action on platform.admin_actions (action, seq);
create index admin_actions_target on platform.admin_actions (target, seq);
create index admin_actions_age on platform.admin_actions (occurred_at);
