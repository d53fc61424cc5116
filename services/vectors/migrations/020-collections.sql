-- The collections. The platform's own four have no making; of any other name each making is a row of its own, kept after its
-- end, so that late records of it are known.
create table platform.collections (
  id bigint generated always as identity primary key,
  name text not null,
  making text unique,
  description text,
  created_by text not null,
  created_at timestamptz not null default now(),
  -- No read shows it from then on.
  deleted_at timestamptz,
  -- Its points are deleted in the log and gone from the engines; later records of it are left out.
  purged_at timestamptz
);
create unique index collections_live on platform.collections (name) where deleted_at is null;
create index collections_dying on platform.collections (id) where deleted_at is not null and purged_at is null;
insert into platform.collections (name, description, created_by) values
  ('fleet_notes', 'Notes of the fleet, and what agents did to vectors.', 'platform'),
  ('posts', null, 'platform'),
  ('knowledgebase', null, 'platform'),
  ('almemsha', null, 'platform');
