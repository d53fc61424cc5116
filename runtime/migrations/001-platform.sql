-- The control plane: who the agents are, what the platform remembers about its topics, and the transactional outbox.
create schema platform;

-- One row: the secret behind operation ids. Written by the first start.
create table platform.installation (
  only_one boolean primary key default true check (only_one),
  secret bytea not null,
  created_at timestamptz not null default now()
);

-- Where each topic of the catalogue lives now; growing a compacted topic gives it a new epoch and physical name.
create table platform.topics (
  name text primary key,
  physical_name text not null,
  epoch integer not null default 1,
  partitions integer not null,
  created_at timestamptz not null default now()
);

-- A row says that the reader's initial positions were written once: a position missing later is a fault, not a start.
create table platform.readers (
  topic text not null,
  reader_group text not null,
  created_at timestamptz not null default now(),
  primary key (topic, reader_group)
);

create table platform.agents (
  uid text primary key,
  agent_id text not null,
  name text not null,
  role text not null,
  access text not null check (access in ('admin', 'member', 'viewer')),
  tier text not null check (tier in ('agent', 'research-agent', 'infra-architect')),
  quota bigint check (quota >= 0),
  public_key bytea not null,
  public_key_fingerprint text not null,
  version bigint not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index agents_agent_id on platform.agents (lower(agent_id));

create table platform.challenges (
  id bigint generated always as identity primary key,
  agent_uid text not null references platform.agents (uid) on delete cascade,
  address text not null,
  client_nonce text not null,
  server_nonce text not null,
  expires_at timestamptz not null
);
create index challenges_agent on platform.challenges (agent_uid, expires_at);

create table platform.gateway_keys (
  hash bytea primary key,
  agent_uid text not null references platform.agents (uid) on delete cascade,
  shown text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index gateway_keys_agent on platform.gateway_keys (agent_uid);
create index gateway_keys_expiry on platform.gateway_keys (expires_at);

-- Rows are published in id order and then deleted. The row of the changed thing is locked before its outbox row is
-- written, so id order is commit order for a key.
create table platform.outbox (
  id bigint generated always as identity primary key,
  topic text not null,
  key text not null,
  event_id text not null,
  value jsonb,
  headers jsonb not null default '{}',
  created_at timestamptz not null default now()
);

create table platform.leases (
  name text primary key,
  holder text not null,
  epoch bigint not null default 1,
  expires_at timestamptz not null
);

-- Records of an operation that could not be applied; kept for 7 days.
create table platform.operation_failures (
  operation text not null,
  partition integer not null,
  "offset" bigint not null,
  point_id text,
  error text not null,
  created_at timestamptz not null default now(),
  primary key (operation, partition, "offset")
);
create index operation_failures_age on platform.operation_failures (created_at);

create table platform.idempotency_keys (
  scope text not null,
  key text not null,
  body_hash bytea not null,
  seed text not null,
  attempt integer not null default 1,
  status_code integer,
  headers jsonb,
  body text,
  created_at timestamptz not null default now(),
  started_at timestamptz not null default now(),
  primary key (scope, key)
);
create index idempotency_keys_age on platform.idempotency_keys (created_at);

-- live: reads see it; building: a rebuild fills it; switching: the old writers stop, then the new one takes over.
create table platform.index_generations (
  index_name text not null,
  generation integer not null,
  state text not null check (state in ('building', 'switching', 'live', 'retired')),
  started_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (index_name, generation)
);
create unique index index_generations_live on platform.index_generations (index_name) where state = 'live';
