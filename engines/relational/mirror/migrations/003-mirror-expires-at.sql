-- When a point expires: past it no search shows the row. Fresh tables are made with the column, those of a database that is
-- there already get it here, the live ones and those of a rebuild. The index has the rows that expire and no others.
do $$
  declare
    place record;
  begin
    for place in
      select case when live then 'vectors' else 'vectors_build' end as schema,
        case when live then 'metadata' else 'metadata_g' || generation end as name
      from vectors_build.generations
    loop
      execute format('alter table %I.%I add column expires_at timestamptz', place.schema, place.name);
      execute format('create index %I on %I.%I (expires_at) where expires_at is not null',
        place.name || '_expires_at', place.schema, place.name);
    end loop;
  end
$$;
