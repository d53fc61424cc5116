-- Payload keys that filters use often: an engine that needs an index for each makes it again from here. `collection` is a stored name.
create table platform.payload_indexes (
  collection text not null,
  key text not null,
  type text not null,
  created_by text not null,
  created_at timestamptz not null default now(),
  primary key (collection, key)
);
