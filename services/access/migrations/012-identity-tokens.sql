-- What the local issuer keeps of its refresh tokens: a hash, and what the next ID token says.
create table platform.refresh_tokens (
  hash bytea primary key,
  uid text not null,
  claims jsonb not null,
  lifetime_s integer not null,
  auth_time timestamptz not null,
  expires_at timestamptz not null
);
create index refresh_tokens_uid on platform.refresh_tokens (uid, auth_time);
create index refresh_tokens_expiry on platform.refresh_tokens (expires_at);
