-- The platform's own secrets, each encrypted with a key that the database does not hold.
create table platform.secrets (
  name text primary key,
  sealed bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
