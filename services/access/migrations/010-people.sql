-- People who sign in to the main API, and their sessions. A person signs in with a password, or at an identity provider.
create table platform.people (
  uid text primary key,
  email text not null,
  name text not null,
  role text not null check (role in ('admin', 'member', 'viewer')),
  -- A PHC string of scrypt; null for who signs in elsewhere.
  password text,
  -- The password was given by another person: its sessions may only replace it.
  must_change_password boolean not null default false,
  -- Who the person is at the OpenID Connect provider. An admin may name the subject before the first sign-in.
  oidc_issuer text,
  oidc_subject text,
  version bigint not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  signed_in_at timestamptz,
  check ((oidc_issuer is null) = (oidc_subject is null))
);
create unique index people_email on platform.people (lower(email));
create unique index people_oidc on platform.people (oidc_issuer, oidc_subject);

create table platform.sessions (
  id text primary key,
  person_uid text not null references platform.people (uid) on delete cascade,
  -- SHA-256 of the cookie's secret and of the half; null for a session that was not begun by a browser.
  secret_hash bytea,
  half_hash bytea,
  -- The refresh token of the provider where the person signed in, encrypted.
  provider_token bytea,
  created_at timestamptz not null default now(),
  used_at timestamptz not null default now()
);
create index sessions_person on platform.sessions (person_uid, used_at);
create index sessions_age on platform.sessions (used_at);

-- One-time codes that the callback of an OpenID Connect sign-in gives to the page.
create table platform.sign_in_codes (
  hash bytea primary key,
  person_uid text not null references platform.people (uid) on delete cascade,
  -- SHA-256 of the state of the browser that began: no other may use the code.
  state_hash bytea not null,
  expires_at timestamptz not null
);
create index sign_in_codes_expiry on platform.sign_in_codes (expires_at);
