-- A target owns a partition of webhooks.deliveries for as long as its row stands: the offset is its sequence.
create table platform.webhook_targets (
  name text primary key,
  partition integer not null unique check (partition >= 0),
  -- The operator gave up on the records up to this offset: the courier parks them instead of trying them again.
  skip_through bigint,
  created_at timestamptz not null default now()
);
