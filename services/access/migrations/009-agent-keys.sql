-- The vault: long-lived keys that agents trade for tokens. Only a hash is stored; a revoked key keeps its row.
create table platform.agent_keys (
  id text primary key,
  hash bytea not null unique,
  agent_uid text not null references platform.agents (uid) on delete cascade,
  label text not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index agent_keys_agent on platform.agent_keys (agent_uid);
