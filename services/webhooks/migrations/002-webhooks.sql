-- A target owns a partition of webhooks.deliveries for as long as its row stands: the offset is its sequence.
create table platform.webhook_targets (
  name text primary key,
  partition integer not null unique check (partition >= 0),
  -- The operator gave up on the records up to this offset: the courier parks them instead of trying them again.
  skip_through bigint,
  created_at timestamptz not null default now()
);

-- Where a reader group begins in partitions that were added while it had members, whom nobody can give positions: its
-- member takes the row's offset over when it gains the partition, and the row goes once a position is committed.
create table platform.added_partitions (
  topic text not null,
  reader_group text not null,
  partition integer not null,
  "offset" bigint not null,
  primary key (topic, reader_group, partition)
);
