-- Notes of agents and people. Nothing deletes them; those that are done are archived.
create table platform.notes (
  id bigint generated always as identity primary key,
  thread_id uuid not null,
  parent_id bigint,
  subject text not null,
  body text not null,
  priority text not null check (priority in ('low', 'normal', 'high', 'urgent')),
  status text not null check (status in ('active', 'resolved', 'archived')),
  -- As it is shown, and who it is: an agent's id may be given to another one after it was deleted.
  author text not null,
  author_uid text not null,
  -- Rises with every change: the ETag.
  version bigint not null default 1,
  -- Of a request under an Idempotency-Key: run again, it finds the note that it has made.
  creation_key text unique,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index notes_thread on platform.notes (thread_id, id);
create index notes_status on platform.notes (status, id);
create index notes_priority on platform.notes (priority, id);
create index notes_author on platform.notes (author, id);
