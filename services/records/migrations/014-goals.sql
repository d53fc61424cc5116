-- Goals of agents and people. Those of a collective dispatch are moved by the dispatch alone.
create table platform.goals (
  id bigint generated always as identity primary key,
  title text not null,
  description text not null,
  priority text not null check (priority in ('low', 'normal', 'high', 'urgent')),
  status text not null check (status in ('pending', 'active', 'completed', 'failed', 'canceled')),
  of_dispatch boolean not null default false,
  author text not null,
  author_uid text not null,
  -- Rises with every change: the ETag.
  version bigint not null default 1,
  -- Of a request under an Idempotency-Key: run again, it finds the goal that it has made.
  creation_key text unique,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index goals_status on platform.goals (status, id);
create index goals_priority on platform.goals (priority, id);
create index goals_author on platform.goals (author, id);
